# One image for all programs: koord-queue-scheduler (the default), koord-queue-controllers and
# koord-queue-admission-checks (`--entrypoint koord-queue-controllers`, or `command:` in a pod).
#
# The base is pinned by tag, so that a rebuild takes Debian's and Python's fixes; whoever needs the
# same bytes again pins it by digest. tests/tidy/dockerfile.py holds the rules for this file.

FROM python:3.14-slim AS build
WORKDIR /src

# Packages first: they change less often than the sources, and are a layer of their own.
COPY requirements.txt requirements-build.txt ./
RUN python -m pip install --no-cache-dir --disable-pip-version-check \
        --no-deps --require-hashes -r requirements-build.txt \
    && python -m pip check --disable-pip-version-check \
    && python -m venv --without-pip /opt/koord-queue \
    && python -m pip --python /opt/koord-queue/bin/python install --no-cache-dir \
        --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.txt

COPY pyproject.toml README.md LICENSE NOTICE THIRD_PARTY.md ./
COPY koord_queue koord_queue
COPY shared_api shared_api
# Only tests and the demo have a use for it.
RUN rm -r shared_api/fake_api_server
COPY queue_scheduler queue_scheduler
COPY queue_insight queue_insight
COPY queue_admission_checks queue_admission_checks
COPY queue_controllers queue_controllers
# Bytecode is made here, since the root file system is read-only later; "unchecked": the sources
# beside it never change, so nobody needs to look at their times.
RUN python -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation \
        --wheel-dir /wheels . \
    && python -m pip --python /opt/koord-queue/bin/python install --no-cache-dir \
        --disable-pip-version-check --no-compile --no-deps /wheels/*.whl \
    && python -m pip --python /opt/koord-queue/bin/python check --disable-pip-version-check \
    && /opt/koord-queue/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/koord-queue/lib \
    && /opt/koord-queue/bin/koord-queue-scheduler --help > /dev/null \
    && /opt/koord-queue/bin/koord-queue-controllers --help > /dev/null \
    && /opt/koord-queue/bin/koord-queue-admission-checks --help > /dev/null \
    && /opt/koord-queue/bin/koord-queue-insight --help > /dev/null \
    && /opt/koord-queue/bin/koord-queue replay --help > /dev/null

FROM python:3.14-slim
ARG VERSION=unknown
LABEL org.opencontainers.image.title="koord-queue" \
      org.opencontainers.image.description="A job queue for Kubernetes with ElasticQuotas" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.14-slim"

# A running program installs nothing.
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip \
    && rm -rf /usr/local/lib/python3.14/ensurepip
COPY --from=build /opt/koord-queue /opt/koord-queue

ENV PATH=/opt/koord-queue/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that runAsNonRoot can be checked; 65532 is "nonroot" in images without a shell.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["koord-queue-scheduler"]
