# One image, two programs: `python -m autoscaler` and `python -m extender`. The manifests say which.
#   make image, or: docker build -t optimus-on-kubernetes:0.1.0 .
# The tag of the base gets security updates. For the same bytes every time, pin its digest:
#   docker build --build-arg PYTHON=python:3.11-slim-trixie@sha256:... .
ARG PYTHON=python:3.11-slim-trixie

FROM ${PYTHON} AS packages
COPY requirements/runtime.txt /runtime.txt
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r /runtime.txt \
    && /opt/venv/bin/pip uninstall --yes pip setuptools

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="Optimus on Kubernetes" \
      org.opencontainers.image.description="Scheduler of parameter-server training jobs: autoscaler and extender" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=packages /opt/venv /opt/venv
WORKDIR /opt/optimus
COPY LICENSE ./
COPY optimus optimus
COPY extender extender
COPY autoscaler autoscaler
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/optimus \
    PYTHONUNBUFFERED=1
# Compiled now: at run time the file system is read-only, and every start would compile anew.
RUN python -m compileall -q optimus extender autoscaler
USER 65532:65532
CMD ["python", "-m", "autoscaler", "--help"]
