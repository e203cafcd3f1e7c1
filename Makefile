# SPDX-License-Identifier: LGPL-2.1-or-later
#
#   make demo     install what is missing, build, show a scanner before and after
#   make test     install what is missing, build, run every test
#   make check    the quick half of it: lint, unit and shim tests of one build
#   make apps     real programs with and without the preload, outputs compared
#   make bench    build, and print the table of measured results
#   make bench-page  the same for files larger than memory; root; half an hour
#   make install  into $(DESTDIR)$(prefix)
#   make format   clang-format over the C sources
#   make tidy     clang-tidy over the runtime and the shim
#   make clean
#
# The build itself is CMake's; `cmake --workflow --preset dev` does one
# configuration without this file.
prefix ?= /usr/local
CMAKE ?= cmake

.PHONY: all demo test check apps bench bench-page install format tidy clean
all: build/release/build.ninja
	$(CMAKE) --build build/release

build/release/build.ninja:
	$(CMAKE) --preset release

demo:
	scripts/deps.sh demo
	$(CMAKE) --preset release
	$(CMAKE) --build build/release
	scripts/demo.sh build/release

test:
	scripts/deps.sh test
	scripts/test.sh

check:
	$(CMAKE) --preset dev
	$(CMAKE) --build build/dev
	ctest --test-dir build/dev --output-on-failure -L '^(lint|unit|shim)$$'

apps:
	scripts/deps.sh apps
	$(CMAKE) --preset release
	$(CMAKE) --build build/release
	tests/apps/apps.sh --build=build/release

bench:
	scripts/deps.sh bench
	$(CMAKE) --preset release
	$(CMAKE) --build build/release
	scripts/bench.sh build/release

bench-page:
	scripts/deps.sh bench
	$(CMAKE) --preset release
	$(CMAKE) --build build/release
	scripts/bench-page.sh build/release

install:
	$(CMAKE) --preset release -DCMAKE_INSTALL_PREFIX='$(prefix)'
	$(CMAKE) --build build/release
	DESTDIR='$(DESTDIR)' $(CMAKE) --install build/release

format:
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

tidy:
	$(CMAKE) --preset dev-clang
	clang-tidy -p build/dev-clang --quiet runtime/*/*.c shim/*.c shim/cli/*.c

clean:
	rm -rf build
