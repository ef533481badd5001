# actionledger: build, install and test.
#
#   make, make install     the extension, with the server of PG_CONFIG
#   make check             every test, in a private copy with a private server
#   make demo              the demonstration, on the same private server
#   make bench             the measurements
#   make schema-suite SUITE=dir
#                          the public JSON Schema suite in that folder
#   make fuzz              the fuzz targets, with clang
#
# check, demo, bench and schema-suite need only make, bash and apt-get: they
# install what is missing and hand over to scripts in test/ (see
# test/README.md).  WERROR=1 makes warnings errors.

SCRIPT_GOALS := check demo bench schema-suite fuzz
.DEFAULT_GOAL := all
.PHONY: all fault unit fuzz-server provider resolver clock rawloop layers $(SCRIPT_GOALS)

ifneq ($(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)),)
# ---------------------------------------------------------------------------
# Goals that are scripts: without pg_config, so that they run on a fresh machine
# ---------------------------------------------------------------------------
.NOTPARALLEL:

check:
	@bash test/check

demo:
	@bash test/demo/run

bench:
	@bash test/bench/run

schema-suite:
	@bash test/schema-suite/run '$(SUITE)'

fuzz:
	@bash test/fuzz/run

# Other goals of the same command line.
OTHER_GOALS := $(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS))
ifneq ($(OTHER_GOALS),)
.PHONY: $(OTHER_GOALS)
$(OTHER_GOALS):
	+$(MAKE) $@
endif

else
# ---------------------------------------------------------------------------
# Goals that compile
# ---------------------------------------------------------------------------
EXTENSION = actionledger
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" $(EXTENSION).control)
MODULE_big = actionledger
PGFILEDESC = "actionledger - a ledger of consequential outside actions"

PG_SOURCES := $(sort $(wildcard src/*.c))
RULES_SOURCES := $(sort $(wildcard src/rules/*.c))
WIRE_SOURCES := $(sort $(wildcard src/wire/*.c))
UNIT_SOURCES := $(sort $(wildcard test/unit/test_*.c))
FUZZ_SOURCES := $(filter-out test/fuzz/replay.c,$(sort $(wildcard test/fuzz/*.c)))
PROVIDER_SOURCES := $(sort $(wildcard test/provider/*.c))

# src/x.c -> build/pg/x.o, src/rules/x.c -> build/rules/x.o, ...
RULES_OBJS := $(RULES_SOURCES:src/%.c=build/%.o)
WIRE_OBJS := $(WIRE_SOURCES:src/%.c=build/%.o)
OBJS := $(PG_SOURCES:src/%.c=build/pg/%.o) $(RULES_OBJS) $(WIRE_OBJS)
FAULT_OBJS := $(OBJS:build/%=build/fault/%)

INSTALL_SCRIPT_SQL := sql/$(EXTENSION)--$(EXTVERSION).sql
SQL_PIECES := $(sort $(wildcard sql/[0-9][0-9]_*.sql))
DATA = $(sort $(wildcard sql/$(EXTENSION)--*--*.sql))
DATA_built = $(INSTALL_SCRIPT_SQL)

SHLIB_LINK = -lcurl
PG_CPPFLAGS = -Isrc
WARNINGS = -Wall -Wextra -Wno-sign-compare -Wno-unused-parameter -Wno-missing-field-initializers
ifeq ($(WERROR),1)
WARNINGS += -Werror
endif
PG_CFLAGS = $(WARNINGS)

# "make installcheck": against a running server that preloads the library.  The
# output folder is not the top one, in whose sql/ pg_regress would look for tests.
REGRESS = $(sort $(basename $(notdir $(wildcard test/sql/*.sql))))
REGRESS_OPTS = --inputdir=test --outputdir=build/regress
REGRESS_PREP = build/regress/expected
ISOLATION = $(sort $(basename $(notdir $(wildcard test/specs/*.spec))))
ISOLATION_OPTS = --inputdir=test
EXTRA_CLEAN = build results output_iso regression.diffs regression.out

PG_CONFIG ?= pg_config
PGXS := $(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null))
ifneq ($(PGXS),)
override with_llvm := no
include $(PGXS)
else
CFLAGS ?= -O2 -g
override CFLAGS += $(WARNINGS) -fPIC
all install fault:
	@echo "PostgreSQL's server headers are missing: give PG_CONFIG, or run \"make check\", which installs them" >&2
	@exit 1
clean:
	rm -rf $(EXTRA_CLEAN) $(MODULE_big).so $(INSTALL_SCRIPT_SQL)
endif

# The install script: its pieces in the order of their names.
$(INSTALL_SCRIPT_SQL): $(SQL_PIECES) $(EXTENSION).control Makefile
	@{ printf '%s\n' '\echo Use "CREATE EXTENSION $(EXTENSION)" to load this file. \quit'; \
	for piece in $(SQL_PIECES); do printf '\n'; cat "$$piece"; done; } >$@.tmp
	@mv $@.tmp $@

# rules and wire are compiled without the server's include path: an include
# that breaks the layering does not compile.
PLAIN_CPPFLAGS = -Isrc -D_GNU_SOURCE=
COMPILE = @mkdir -p $(@D) && echo '$(CC) $<' && $(CC) $(CFLAGS)
DEPENDENCIES = -MMD -MP

build/pg/%.o: src/%.c Makefile
	$(COMPILE) $(CPPFLAGS) $(DEPENDENCIES) -c -o $@ $<
build/rules/%.o: src/rules/%.c Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) $(DEPENDENCIES) -c -o $@ $<
build/wire/%.o: src/wire/%.c Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) $(DEPENDENCIES) -c -o $@ $<

# The fault build: the same sources with the fault points of rules/fault.h.
build/fault/pg/%.o: src/%.c Makefile
	$(COMPILE) $(CPPFLAGS) -DAL_FAULT_BUILD $(DEPENDENCIES) -c -o $@ $<
build/fault/rules/%.o: src/rules/%.c Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -DAL_FAULT_BUILD $(DEPENDENCIES) -c -o $@ $<
build/fault/wire/%.o: src/wire/%.c Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -DAL_FAULT_BUILD $(DEPENDENCIES) -c -o $@ $<

ifneq ($(PGXS),)
fault: build/fault/$(MODULE_big).so
build/fault/$(MODULE_big).so: $(FAULT_OBJS)
	$(CC) $(CFLAGS) $(FAULT_OBJS) $(LDFLAGS) $(LDFLAGS_SL) -shared -o $@ $(SHLIB_LINK)
endif

build/regress/expected:
	@mkdir -p $(@D) && ln -sfn ../../expected $@

# What stands in for functions of libc must be seen by other libraries; PostgreSQL
# 16 and later compile modules with -fvisibility=hidden.
VISIBLE = -fvisibility=default

# Unit tests: each test/unit/test_*.c is a program that prints TAP.  Those that
# are named test_fault* are linked with the fault build.
build/librules.a: $(RULES_OBJS)
build/libwire.a: $(WIRE_OBJS)
build/fault/librules.a: $(RULES_OBJS:build/%=build/fault/%)
build/fault/libwire.a: $(WIRE_OBJS:build/%=build/fault/%)
build/librules.a build/libwire.a build/fault/librules.a build/fault/libwire.a:
	@mkdir -p $(@D) && rm -f $@ && ar rcs $@ $^

UNIT_TESTS := $(UNIT_SOURCES:test/unit/%.c=build/unit/%)
FAULT_UNIT_TESTS := $(filter build/unit/test_fault%,$(UNIT_TESTS))
UNIT_LIBS = -Wl,--as-needed -lcurl -lm -pthread
unit: $(UNIT_TESTS)
$(filter-out $(FAULT_UNIT_TESTS),$(UNIT_TESTS)): build/unit/%: test/unit/%.c build/libwire.a build/librules.a Makefile
	$(COMPILE) $(VISIBLE) $(PLAIN_CPPFLAGS) $(DEPENDENCIES) -o $@ $< build/libwire.a build/librules.a $(UNIT_LIBS)
$(FAULT_UNIT_TESTS): build/unit/%: test/unit/%.c build/fault/libwire.a build/fault/librules.a Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -DAL_FAULT_BUILD $(DEPENDENCIES) -o $@ $< build/fault/libwire.a build/fault/librules.a $(UNIT_LIBS)

# The kept inputs of the fuzz targets, run without a fuzzer: the targets' entry
# points get names of their own.
FUZZ_OBJS := $(FUZZ_SOURCES:test/fuzz/%.c=build/fuzz/replay/%.o)
FUZZ_TARGETS_LISTED := $(patsubst test/fuzz/%.c,TARGET(%),$(FUZZ_SOURCES))
unit: build/unit/test_fuzz_corpus
$(FUZZ_OBJS): build/fuzz/replay/%.o: test/fuzz/%.c test/fuzz/fuzz.h $(wildcard src/rules/*.h) Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -DLLVMFuzzerTestOneInput=fuzz_$* -c -o $@ $<
build/unit/test_fuzz_corpus: test/fuzz/replay.c $(FUZZ_OBJS) build/librules.a test/unit/tap.h Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) '-DFUZZ_TARGETS=$(FUZZ_TARGETS_LISTED)' -o $@ $< $(FUZZ_OBJS) build/librules.a $(UNIT_LIBS)

# The same for the targets that run in a server: each a library with the extension in it.
ifneq ($(PGXS),)
FUZZ_SERVER_SOURCES := $(filter-out test/fuzz/server/module.c,$(sort $(wildcard test/fuzz/server/*.c)))
fuzz-server: $(FUZZ_SERVER_SOURCES:test/fuzz/server/%.c=build/fuzz/server/%.so)
build/fuzz/server/%.o: test/fuzz/server/%.c Makefile
	$(COMPILE) $(CPPFLAGS) $(DEPENDENCIES) -c -o $@ $<
build/fuzz/server/%.so: build/fuzz/server/%.o build/fuzz/server/module.o $(OBJS)
	$(CC) $(CFLAGS) $^ $(LDFLAGS) $(LDFLAGS_SL) -Wl,-Bsymbolic -shared -o $@ $(SHLIB_LINK)
endif

# The HTTP server of the tests.
provider: build/provider
build/provider: $(PROVIDER_SOURCES) $(wildcard test/provider/*.h) Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -o $@ $(PROVIDER_SOURCES) -lssl -lcrypto -pthread
# The name server of the tests, for LD_PRELOAD.
resolver: build/resolver.so
build/resolver.so: test/lib/resolver.c Makefile
	$(COMPILE) $(VISIBLE) $(PLAIN_CPPFLAGS) -fPIC -shared -o $@ $< -ldl -pthread
# The clock of the tests, likewise.
clock: build/clock.so
build/clock.so: test/lib/clock.c Makefile
	$(COMPILE) $(VISIBLE) $(PLAIN_CPPFLAGS) -fPIC -shared -o $@ $< -ldl
# The raw libcurl loop of the measurements.
rawloop: build/rawloop
build/rawloop: test/bench/rawloop.c Makefile
	$(COMPILE) $(PLAIN_CPPFLAGS) -o $@ $< -lcurl

layers:
	@bash test/static layers

-include $(wildcard build/*/*.d build/fault/*/*.d)
endif
