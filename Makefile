# Makefile: the commands of the README; each installs what it needs first and is quick the second time

SHELL := /bin/bash
PRESET ?= release
VENV ?= .venv
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
HOST := $(shell uname -m)
ARCH ?= $(HOST)
export VENV PYTHON JOBS

.DEFAULT_GOAL := help
.PHONY: help build test test-cpp test-python demo bench docs wheel one show compare check lines hooks format tidy clean distclean

help: ## Show this list
	@echo "make TARGET [PRESET=release|dev|asan|tsan|ubsan] [VENV=.venv] [PYTHON=python3] [JOBS=n]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Install what the build needs, build the library and the Python module
	@tools/bootstrap.sh build tools/build.sh $(PRESET)

test: export CMAKE_OPTIONS := -DHOLOGRAM_CUBINS=ON
test: ## Build everything and run every test
	@tools/bootstrap.sh test tools/build.sh $(PRESET)
	@tools/build.sh wasm
	@tools/test.sh $(PRESET)

test-cpp: build ## Run the C++ tests only
	@ctest --preset $(PRESET) -j $(JOBS)

test-python: ## Run the Python tests only
	@tools/bootstrap.sh test tools/build.sh $(PRESET) _core
	@$(VENV)/bin/python -m pytest

demo: ## Compile a real sentence encoder and search a text collection with it
	@tools/bootstrap.sh demo tools/build.sh release _core
	@$(VENV)/bin/python -m hologram_torch.demo $(ARGS)

bench: ## Measure against other runtimes, each in its own process
	@tools/bootstrap.sh bench tools/build.sh release _core benchmarks
	@$(VENV)/bin/python bench/run.py $(ARGS)

docs: ## Build the site of the documentation in build/docs
	@tools/bootstrap.sh docs tools/build.sh release _core
	@. tools/steps.sh && step "site" build/logs/docs.log env NO_MKDOCS_2_WARNING=1 PATH="$$PWD/$(VENV)/bin:$$PATH" PYTHONPATH=. \
	  $(VENV)/bin/python -m mkdocs build --strict -q
	@echo "build/docs/index.html (hologram docs opens it)"

wheel: export CMAKE_OPTIONS := -DHOLOGRAM_CUBINS=ON
wheel: ## Make a wheel in dist/, for every Python from 3.11 on and for glibc from 2.28 on; ARCH=aarch64: by a cross compiler
	@tools/bootstrap.sh web tools/build.sh wasm
ifeq ($(ARCH),$(HOST))
	@tools/bootstrap.sh build tools/build.sh release _core hologram hologram_compiler hologram_rt
	@. tools/steps.sh && step "wheel" build/logs/wheel.log tools/wheel.sh build/release dist
else
	@tools/bootstrap.sh cross tools/build.sh release hologram_kernelgen hologram_gpukernelgen
	@tools/build.sh $(ARCH) _core hologram hologram_compiler hologram_rt
	@. tools/steps.sh && step "wheel" build/logs/wheel.log tools/wheel.sh build/$(ARCH) dist $(ARCH)
endif
	@ls dist/*.whl

one: ## Build what one test needs and run it: T=tests/torch/test_cut.py[::name], T=test_ir or T='test_ir:Graph.*'
	@tools/bootstrap.sh $(if $(filter test_%,$(T)),build,test) tools/daily.sh one '$(T)'

show: ## What the compiler makes of a program: F=model.py S=plan,asm (fx graph plan atlas llvm asm ptx wgsl), into build/show
	@tools/bootstrap.sh $(if $(shell grep -sl torch '$(F)'),test,build) tools/daily.sh show '$(F)' '$(S)'

compare: ## Measure this tree beside an earlier commit in the same rounds: REF=HEAD~1 CASES='chain-*'
	@tools/bootstrap.sh bench tools/daily.sh compare '$(or $(REF),HEAD)' '$(CASES)'

check: ## The checks of style, includes, imports and names (seconds)
	@tools/bootstrap.sh test
	@for check in check_includes.py check_imports.py check_names.py "layers.py --check"; do $(VENV)/bin/python tools/$$check || exit 1; done
	@$(VENV)/bin/python -m pytest -q -n0 tests/python/test_style.py

lines: ## Count the lines of code of the library, its tests and its tools
	@$(PYTHON) tools/lines.py $(D)

hooks: ## Run these checks before each commit (pre-commit)
	@$(VENV)/bin/python -m pip install -q pre-commit && $(VENV)/bin/pre-commit install

format: ## Format the C++ sources with clang-format
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

tidy: ## Run clang-tidy 19 over the C++ sources (half an hour)
	@tools/build.sh dev
	@git ls-files 'src/*.cpp' 'python/_core/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-19 -p build/dev --quiet

clean: ## Remove the builds
	@rm -rf build dist python/hologram/_core*.so

distclean: clean ## Remove the builds and the virtual environment
	@rm -rf .venv
