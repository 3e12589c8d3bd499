# llm-router: `make help` lists the targets.
#
# Variables: PORT, RUN_DIR, WORKERS, STORE=embedded|postgres (make run; PORT of make verification, too);
# TESTS (make integration: pytest's arguments), FRONT_END (make integration: what stands in front, see
# tests/README.md); FUZZ_SECONDS (make fuzz); SOAK_REQUESTS (make soak); PREFIX, UNIT_DIR, DOC_DIR,
# DESTDIR (make install); V=1 (show commands), CC, CFLAGS, CC_FOR_BUILD (for what runs during the build),
# SANITIZE=1 (AddressSanitizer and UBSan, in a build folder of its own).

PORT ?= 8080
RUN_DIR ?= var/run
STORE ?= embedded
WORKERS ?= 16
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local
UNIT_DIR ?= $(PREFIX)/lib/systemd/system
DOC_DIR ?= $(PREFIX)/share/doc/llm-router
DESTDIR ?=

BUILD ?= build
CC_FOR_BUILD ?= $(CC)
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
HARDENING := -fstack-protector-strong -fPIE
# Of the place and time of a build nothing is in a program.
REPRODUCIBLE := -ffile-prefix-map=$(CURDIR)=. -Wdate-time
GENERATED = $(BUILD)/generated# headers of the build's own
CPPFLAGS += -I. -I$(GENERATED) -D_GNU_SOURCE
ALL_CFLAGS := -std=c17 $(WARNINGS) $(HARDENING) $(REPRODUCIBLE) $(CFLAGS)
LDLIBS := -lcurl -ljson-c -lpq -lhiredis -lprotobuf-c -lz -lssl -lcrypto
LDFLAGS += -pie -Wl,-z,relro,-z,now

ifdef SANITIZE
BUILD := build/sanitize
ALL_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
else ifdef FUZZER
BUILD := build/fuzz
CC := clang
ALL_CFLAGS += -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=fuzzer,address,undefined
else
CPPFLAGS += -D_FORTIFY_SOURCE=2
endif

CORE_SOURCES := $(sort $(wildcard core/*/*.c adapters/*.c))
ENGINE_SOURCES := $(sort $(wildcard fcgi/engine/*.c fcgi/shipper/*.c))
EDGE_SOURCES := $(sort $(filter-out fcgi/main.c,$(wildcard fcgi/edge/*.c fcgi/*.c)))
ADMIN_SOURCES := $(sort $(wildcard admin/*.c))
CTL_SOURCES := $(sort $(filter-out admin/ctl/main.c,$(wildcard admin/ctl/*.c)))
UNIT_SOURCES := $(sort $(wildcard tests/unit/test_*.c))
MIGRATIONS := $(sort $(wildcard sql/[0-9]*.sql))
PAGES := $(sort $(wildcard admin/binding/*.html admin/binding/*.css admin/binding/*.js admin/binding/*.svg))
VOICES := $(sort $(wildcard voices/*.tsv))
UNITS := $(sort $(wildcard lighttpd/*.service lighttpd/*.socket))
MANUALS := $(sort $(wildcard man/*.[1-9]))
FRONT_ENDS := $(sort $(wildcard lighttpd/*.conf)) lighttpd/Caddyfile
GRAFANA := admin/grafana/alerts.rules.yml $(sort $(wildcard admin/grafana/dashboards/*.json admin/grafana/provisioning/*/*.yaml))

# What is compiled is compiled on all processors; how tests share them is in tests/README.md.
PARALLEL = $(MAKE) --no-print-directory -j$(shell nproc)
# By another name in a line that does more: make -n runs what has MAKE's in it.
AGAIN = $(MAKE) --no-print-directory

# A line per step; the whole command with V=1.
run = $(if $(V),,@echo '  $(1) $@';) $(2)

object = $(patsubst %.c,$(BUILD)/%.o,$(1))
PROGRAMS := $(BUILD)/llm-router $(BUILD)/llm-router-admin $(BUILD)/llm-routerctl
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SOURCES))
BENCH_PROGRAMS := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard tests/bench/*.c)))
SOAK_PROGRAMS := $(BUILD)/soak/callers $(BUILD)/bench/upstream $(BUILD)/bench/streams
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
C_FILES = $(sort $(shell find core fcgi adapters admin tests tools -name '*.[ch]'))

BUILD_PACKAGES := gcc libc6-dev make pkg-config libcurl4-openssl-dev libssl-dev libjson-c-dev libpq-dev \
	libhiredis-dev libprotobuf-c-dev protobuf-c-compiler zlib1g-dev
SERVER_PACKAGES := postgresql redis-server
RUN_PACKAGES := $(BUILD_PACKAGES) lighttpd python3 curl ca-certificates \
	$(if $(filter postgres,$(STORE)),$(SERVER_PACKAGES))
# Debian's nodejs where there is no other; a program, so that no package of another origin is replaced.
NODE_PACKAGES := $(if $(shell command -v node),,nodejs) $(if $(shell command -v npm),,npm)
WEB_SERVER_PACKAGES := lighttpd-mod-openssl nginx apache2-bin caddy # and lighttpd
TEST_PACKAGES := $(RUN_PACKAGES) $(SERVER_PACKAGES) $(WEB_SERVER_PACKAGES) $(NODE_PACKAGES) check \
	chromium-headless-shell espeak-ng ffmpeg jq libfcgi-dev multiwatch procps prometheus python3-venv spawn-fcgi strace \
	systemd valgrind wrk
LINT_PACKAGES := $(BUILD_PACKAGES) check libfcgi-dev clang clang-format clang-tidy cppcheck mandoc pyflakes3 shellcheck
BENCH_PACKAGES := $(RUN_PACKAGES) $(SERVER_PACKAGES) libfcgi-dev wrk python3-cryptography
BENCH_PEERS_PACKAGES := $(BENCH_PACKAGES) $(NODE_PACKAGES) nginx python3-venv
FUZZ_PACKAGES := $(BUILD_PACKAGES) clang libclang-rt-14-dev
DEB_PACKAGES := $(BUILD_PACKAGES) debhelper dpkg-dev
TEST_DEB_PACKAGES := $(DEB_PACKAGES) debootstrap lintian systemd-container

.DEFAULT_GOAL := all
.PHONY: all help run test unit integration verification front-ends soak replay fuzz lint bench bench-peers install deb test-deb clean format
.DELETE_ON_ERROR:
.SECONDARY:

all: programs ## build the programs

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Names what is missing before it installs it.
.PHONY: packages-build packages-run packages-test packages-lint packages-bench packages-bench-peers packages-fuzz packages-deb packages-test-deb
packages-build: ; @tools/install-packages $(BUILD_PACKAGES)
packages-run: ; @tools/install-packages $(RUN_PACKAGES)
packages-test: ; @tools/install-packages $(TEST_PACKAGES)
packages-lint: ; @tools/install-packages $(LINT_PACKAGES)
packages-bench: ; @tools/install-packages $(BENCH_PACKAGES)
packages-bench-peers: ; @tools/install-packages $(BENCH_PEERS_PACKAGES)
packages-fuzz: ; @tools/install-packages $(FUZZ_PACKAGES)
packages-deb: ; @tools/install-packages $(DEB_PACKAGES)
packages-test-deb: ; @tools/install-packages $(TEST_DEB_PACKAGES)

# The messages of OTLP: their C comes from the protocol's field numbers.
OTLP := $(GENERATED)/core/telemetry/otlp.pb-c

$(OTLP).c $(OTLP).h &: core/telemetry/otlp.proto | packages-build
	@mkdir -p $(@D)
	$(call run,GEN,protoc-c --c_out=$(GENERATED) $<)

$(OTLP).o: $(OTLP).c
	$(call run,CC,$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@)

$(BUILD)/%.o: %.c | packages-build $(OTLP).h
	@mkdir -p $(@D)
	$(call run,CC,$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@)

# The catalogs of voices: data, compiled into the library by a program of the same sources.
VOICE_COMPILER_SOURCES := tools/compile_voices.c core/voices/table.c core/voices/piece.c \
	core/json/writer.c core/json/text.c core/crypto/digest.c $(addprefix core/base/,arena.c buf.c err.c file.c ids.c)

$(BUILD)/compile-voices: $(VOICE_COMPILER_SOURCES) $(wildcard core/voices/*.h) | packages-build
	@mkdir -p $(@D)
	$(call run,CC,$(CC_FOR_BUILD) $(CPPFLAGS) -std=c17 $(WARNINGS) -O1 $(filter %.c,$^) -lcrypto -o $@)

$(BUILD)/voices/catalogs.c: $(BUILD)/compile-voices $(VOICES)
	@mkdir -p $(@D)
	$(call run,GEN,$^ >$@)

$(BUILD)/voices/catalogs.o: $(BUILD)/voices/catalogs.c core/voices/compiled.h
	$(call run,CC,$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -c $< -o $@)

$(BUILD)/libcore.a: $(call object,$(CORE_SOURCES)) $(BUILD)/voices/catalogs.o $(OTLP).o
	@rm -f $@
	$(call run,AR,$(AR) rcs $@ $^)

$(BUILD)/libengine.a: $(call object,$(ENGINE_SOURCES))
	@rm -f $@
	$(call run,AR,$(AR) rcs $@ $^)

$(BUILD)/libedge.a: $(call object,$(EDGE_SOURCES))
	@rm -f $@
	$(call run,AR,$(AR) rcs $@ $^)

$(BUILD)/llm-router: $(BUILD)/fcgi/main.o $(BUILD)/libedge.a $(BUILD)/libengine.a $(BUILD)/libcore.a
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

# So are the pages.
$(BUILD)/pages/pages.c: $(PAGES) tools/embed-pages
	@mkdir -p $(@D)
	$(call run,GEN,tools/embed-pages $(PAGES) >$@)

$(BUILD)/pages/pages.o: $(BUILD)/pages/pages.c
	$(call run,CC,$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@)

$(BUILD)/llm-router-admin: $(call object,$(ADMIN_SOURCES)) $(BUILD)/pages/pages.o $(BUILD)/libengine.a $(BUILD)/libcore.a
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

# The migrations are part of the program: it reads no file at run time.
$(BUILD)/sql/migrations.c: $(MIGRATIONS) tools/embed-migrations
	@mkdir -p $(@D)
	$(call run,GEN,tools/embed-migrations $(MIGRATIONS) >$@)

$(BUILD)/sql/migrations.o: $(BUILD)/sql/migrations.c
	$(call run,CC,$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c $< -o $@)

$(BUILD)/libctl.a: $(call object,$(CTL_SOURCES))
	@rm -f $@
	$(call run,AR,$(AR) rcs $@ $^)

$(BUILD)/llm-routerctl: $(BUILD)/admin/ctl/main.o $(BUILD)/libctl.a $(BUILD)/sql/migrations.o $(BUILD)/libengine.a \
		$(BUILD)/libcore.a
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/sql/migrations.o $(BUILD)/libctl.a $(BUILD)/libedge.a $(BUILD)/libengine.a $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $$(pkg-config --libs check) $(LDLIBS) -o $@)

$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -lfcgi -o $@) # to compare with

$(BUILD)/soak/%: $(BUILD)/tests/soak/%.o $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

# One target, two programs: with libFuzzer, and with a loop over the files of a folder.
$(BUILD)/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/libengine.a $(BUILD)/libcore.a
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

$(BUILD)/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(BUILD)/libengine.a $(BUILD)/libcore.a
	$(call run,LD,$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@)

run: packages-run programs ## serve everything on PORT until interrupted
	@exec env BUILD=$(BUILD) PORT=$(PORT) RUN_DIR=$(RUN_DIR) STORE=$(STORE) WORKERS=$(WORKERS) demo/run # make passes signals on

test: packages-test unit replay integration ## every test that fits into 15 minutes

unit: packages-test ## unit tests, plain and under AddressSanitizer and UBSan
	@$(PARALLEL) unit-programs
	@$(PARALLEL) unit-programs SANITIZE=1
	@tests/unit/run build/tests build/sanitize/tests

.PHONY: unit-programs programs
programs: packages-build
	@$(PARALLEL) $(PROGRAMS)

unit-programs: $(UNIT_TESTS)

replay: packages-test ## the kept inputs of the fuzz targets, under AddressSanitizer and UBSan
	@$(PARALLEL) replay-programs SANITIZE=1
	@failed=; for target in $(FUZZ_TARGETS); do \
		build/sanitize/replay_$$target tests/fuzz/corpus/$$target || failed=1; \
	done; [ -z "$$failed" ]

fuzz: packages-fuzz ## look for inputs that break a parser, FUZZ_SECONDS for each
	@$(PARALLEL) fuzz-programs FUZZER=1
	@tests/fuzz/run $(FUZZ_SECONDS) $(FUZZ_TARGETS)

.PHONY: replay-programs fuzz-programs
replay-programs: $(FUZZ_TARGETS:%=$(BUILD)/replay_%)
fuzz-programs: $(FUZZ_TARGETS:%=$(BUILD)/fuzz_%)

# The same programs with other layouts of what their processes share, for upgrades between the two.
OTHER := $(BUILD)/other-layout
OTHER_HEADERS := fcgi/engine/mapping.h core/config/snapshot.h

$(OTHER)/headers/.made: tests/integration/other-layout $(OTHER_HEADERS)
	@tests/integration/other-layout $(@D)
	@touch $@

.PHONY: other-layout
other-layout: programs $(OTHER)/headers/.made
	@CPPFLAGS=-I$(OTHER)/headers $(PARALLEL) BUILD=$(OTHER) SANITIZE=$(SANITIZE) CFLAGS=-O0 WARNINGS= programs

integration: packages-test programs other-layout ## through the web servers, with the official client libraries (TESTS=… selects)
	@$(if $(SANITIZE),,$(PARALLEL) $(BENCH_PROGRAMS))
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) CONFINED=$(CONFINED) tests/integration/run $(TESTS)

verification: packages-test programs ## ask what make run serves for one of each, and write admin/VERIFICATION.md
	@BUILD=$(BUILD) PORT=$(PORT) tests/integration/verification admin/VERIFICATION.md

front-ends: packages-test programs other-layout ## the integration tests behind each other front end that there is: an hour and a half
	@failed=; for name in nginx apache caddy cgi spawn-fcgi systemd bin-path; do \
		echo "Behind $$name"; \
		BUILD=$(BUILD) SANITIZE=$(SANITIZE) FRONT_END=$$name tests/integration/run || failed="$$failed $$name"; \
	done; \
	[ -z "$$failed" ] || { echo "There are failures behind$$failed."; exit 1; }

soak: packages-test programs ## as root: crashes under load, a million requests, 2,000 streams, with figures; front-ends: two hours
	@$(PARALLEL) $(SOAK_PROGRAMS)
	@failed=; export BUILD=$(BUILD); \
	CHAOS_SECONDS=600 PLANE_AWAY_SECONDS=60 UPGRADE_STREAMS=500 tests/integration/run -raP \
		$(addprefix tests/integration/test_,chaos.py overload.py plane.py upgrade.py) || failed=1; \
	tests/soak/streams || failed=1; \
	tests/soak/million || failed=1; \
	$(AGAIN) front-ends || failed=1; \
	[ -z "$$failed" ]

lint: packages-lint $(OTLP).h ## layout, dependencies, clang, clang-tidy, cppcheck, manual pages, scripts
	@BUILD=$(BUILD) FLAGS='-std=c17 -I. -isystem $(GENERATED) -D_GNU_SOURCE $(WARNINGS)' tools/lint $(C_FILES)

format: packages-lint ## lay out all C files
	clang-format -i $(C_FILES)

bench: packages-bench programs ## speed, as a ratio against the bare alternatives in the same run
	@$(PARALLEL) $(BENCH_PROGRAMS)
	@BUILD=$(BUILD) tests/bench/run
	@BUILD=$(BUILD) tests/bench/memory
	@BUILD=$(BUILD) tests/bench/handshakes
	@BUILD=$(BUILD) tests/bench/voices
	@BUILD=$(BUILD) tests/bench/utilisation
	@BUILD=$(BUILD) tests/bench/hedging

bench-peers: packages-bench-peers programs ## speed beside other gateways, which it installs into var/peers: a table in Markdown
	@$(PARALLEL) $(BENCH_PROGRAMS)
	@BUILD=$(BUILD) tests/bench/peers

install: $(PROGRAMS) ## programs, manual pages, units, examples and dashboards, into DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(BUILD)/llm-router $(BUILD)/llm-router-admin $(DESTDIR)$(PREFIX)/sbin/
	install -m 755 $(BUILD)/llm-routerctl $(DESTDIR)$(PREFIX)/bin/
	for page in $(MANUALS); do \
		install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done
	install -d $(DESTDIR)$(UNIT_DIR)
	for unit in $(UNITS); do \
		sed 's,/usr/local/,$(PREFIX)/,' $$unit >$(DESTDIR)$(UNIT_DIR)/$${unit##*/} || exit 1; \
	done
	chmod 644 $(patsubst %,$(DESTDIR)$(UNIT_DIR)/%,$(notdir $(UNITS)))
	install -d $(DESTDIR)$(DOC_DIR)/examples
	install -m 644 admin/RUNBOOK.md $(DESTDIR)$(DOC_DIR)/
	install -m 644 $(FRONT_ENDS) lighttpd/README.md $(DESTDIR)$(DOC_DIR)/examples/
	for file in $(GRAFANA); do \
		install -D -m 644 $$file $(DESTDIR)$(PREFIX)/share/llm-router/$${file#admin/} || exit 1; \
	done

deb: packages-deb ## Debian packages, into build/deb
	@debian/build build/deb

test-deb: packages-test-deb ## as root: packages built twice alike, installed, upgraded and purged on a machine of their own
	@tests/packages/run build/deb

clean: ## remove what was built
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
