# astuner for machines without a GPU. In the root of the repository: docker build -f scripts/images/cpu.Dockerfile -t astuner:cpu .
FROM python:3.13-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1
# The tools that build come first on the path; uv installs into VIRTUAL_ENV.
ENV PATH=/opt/tools/bin:$PATH VIRTUAL_ENV=/opt/astuner
WORKDIR /source
COPY constraints constraints
RUN python -m venv /opt/tools \
    && /opt/tools/bin/python -m pip install --constraint constraints/base.txt build hatchling uv \
    && python -m venv --without-pip "$VIRTUAL_ENV"
# Which build of torch uv takes from PyTorch's own index. It is not among the hashes, which are those of the package index.
ARG UV_TORCH_BACKEND=cpu
RUN uv pip install --no-deps torch==2.13.0
COPY scripts scripts
COPY astuner-core astuner-core
COPY plugins plugins
RUN python scripts/build_packages.py /wheels --wheels \
    && python scripts/write_hashed.py --lock /wheels --without-torch > /wheels/lock.txt \
    && uv pip install --no-deps --require-hashes --find-links /wheels -r /wheels/lock.txt \
    && uv pip check

FROM python:3.13-slim-bookworm
# The engine `local` compiles its kernels for the processor that it finds.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 --user-group astuner \
    && install --directory --owner astuner --group astuner /work
COPY --from=build /opt/astuner /opt/astuner
ENV PATH=/opt/astuner/bin:$PATH PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["astuner"]
CMD ["--help"]
