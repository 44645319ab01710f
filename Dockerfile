# 服务的镜像：小、不用 root、根文件系统可以只读；数据在 /data。用法见 docs/operations/service.md 的“容器与打包”。
FROM python:3.12-slim-bookworm AS build
# cluster：另带 PostgreSQL、Milvus、Redis、MySQL 的驱动（deploy/ 用它）；service：只有服务本身
ARG LOCK=cluster
WORKDIR /src
RUN python -m venv /opt/qianxun
COPY requirements/service.txt requirements/cluster.txt requirements/
RUN /opt/qianxun/bin/pip install --no-cache-dir --no-deps --require-hashes -r "requirements/${LOCK}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/qianxun/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin qianxun \
    && install -d -o 10001 -g 10001 -m 0700 /data
COPY --from=build /opt/qianxun /opt/qianxun
ENV PATH=/opt/qianxun/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 QIANXUN_DATA=/data
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["qianxun"]
CMD ["serve", "--host", "0.0.0.0"]
