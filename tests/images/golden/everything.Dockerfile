# Made by `penstock build`: change what it was made from, not this file.
FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04

USER root
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
ENV MODEL="a \"quoted\" \$HOME\\path"
ENV PIP_NO_CACHE_DIR="0"

RUN apt-get update \
 && apt-get install -y --no-install-recommends \
      ffmpeg \
      libgomp1 \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*

RUN python3 -c 'import ensurepip, venv' 2>/dev/null || { apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*; }
RUN python3 -c "import sys; sys.exit(None if sys.version_info[:2] == (3, 10) else 'the base image has Python %d.%d, expected 3.10' % sys.version_info[:2])"
RUN python3 -m venv --system-site-packages /opt/venv
ENV VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:$PATH

RUN pip install --upgrade pip
RUN ["/bin/sh", "-c", "--not-a-flag"]
RUN ["/bin/sh", "-c", "two\nlines"]

COPY requirements.txt /opt/penstock/requirements.txt
RUN python -m pip install -r /opt/penstock/requirements.txt penstock==9.9

RUN python -c 'import sklearn'
RUN ["/bin/sh", "-c", "echo \"[it is a list]\" \\"]
RUN ["/bin/sh", "-c", "[ -e /x ] || true"]

RUN echo 'penstock:x:10001:10001::/home/penstock:/bin/sh' >> /etc/passwd \
 && echo 'penstock:x:10001:' >> /etc/group \
 && mkdir -p /app /home/penstock \
 && chown 10001:10001 /home/penstock

COPY files/app/ /app/
COPY files/data/ /data/
COPY ["files/with space/", "/with space/"]
RUN mkdir -p /app/logs /data/cache && chown 10001:10001 /app/logs /data/cache

WORKDIR /app
USER 10001:10001
ENV HOME=/home/penstock PENSTOCK_HTTP=0.0.0.0:8080 PENSTOCK_GRPC=0.0.0.0:9000 PENSTOCK_CORE_DUMPS=off
EXPOSE 8080 9000
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 \
  CMD ["/opt/venv/bin/python", "-c", "import os, ssl, urllib.request as r; tls = ssl._create_unverified_context() if os.environ.get('PENSTOCK_TLS_CERTIFICATE') else None; r.urlopen(('https' if tls else 'http') + '://127.0.0.1:8080/v2/health/ready', timeout=4, context=tls)"]
ENTRYPOINT ["/opt/venv/bin/penstock", "serve", "--integration", "inferless", ".", "--option", "name=ä"]
