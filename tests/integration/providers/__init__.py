"""Imitations of speech providers, as strict as the real ones: what they would
refuse is refused, in their own words, and answers are real audio in their real
envelopes. server.py is the place to begin."""

from providers.server import Providers

__all__ = ["Providers"]
