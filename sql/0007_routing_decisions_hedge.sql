-- Whether a request was hedged, and what became of the attempt beside the first one: the event's
-- "hedge". Rows from before have it in their line only.

ALTER TABLE routing_decisions ADD COLUMN hedge text;
