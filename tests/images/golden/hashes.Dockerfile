# Made by `penstock build`: change what it was made from, not this file.
FROM python:3.11-slim

USER root
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1

RUN python3 -m venv --system-site-packages /opt/venv
ENV VIRTUAL_ENV=/opt/venv PATH=/opt/venv/bin:$PATH

COPY wheels/penstock-9.9-py3-none-any.whl /opt/penstock/penstock-9.9-py3-none-any.whl
COPY requirements.txt /opt/penstock/requirements.txt
RUN python -m pip install -r /opt/penstock/requirements.txt
RUN python -m pip install /opt/penstock/penstock-9.9-py3-none-any.whl

RUN echo 'penstock:x:10001:10001::/home/penstock:/bin/sh' >> /etc/passwd \
 && echo 'penstock:x:10001:' >> /etc/group \
 && mkdir -p /app /home/penstock \
 && chown 10001:10001 /home/penstock

WORKDIR /app
USER 10001:10001
ENV HOME=/home/penstock PENSTOCK_HTTP=0.0.0.0:8000 PENSTOCK_GRPC=off PENSTOCK_CORE_DUMPS=off
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s --retries=3 \
  CMD ["/opt/venv/bin/python", "-c", "import os, ssl, urllib.request as r; tls = ssl._create_unverified_context() if os.environ.get('PENSTOCK_TLS_CERTIFICATE') else None; r.urlopen(('https' if tls else 'http') + '://127.0.0.1:8000/v2/health/ready', timeout=4, context=tls)"]
ENTRYPOINT ["/opt/venv/bin/penstock", "serve"]
