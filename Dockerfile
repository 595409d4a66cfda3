# The lab in one image:  docker build -t lab .  &&  docker run -p 8501:8501 -v lab-cache:/lab/cache lab
#
# The CPU build of torch is the default (about 0.8 GB). For NVIDIA GPUs:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 -t lab:gpu .
#   docker run --gpus all -p 8501:8501 -v lab-cache:/lab/cache lab:gpu
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/lab
COPY requirements.txt /tmp/requirements.txt
# torch first and from its own index, so that no other package can pull in another build. An empty TORCH_INDEX takes pip's default.
RUN /opt/lab/bin/pip install ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} \
        "$(grep '^torch==' /tmp/requirements.txt)" \
    && /opt/lab/bin/pip install -r /tmp/requirements.txt

FROM ${BASE}
# HOME must be writable for a user without a password entry's folder; one thread a process, as two would fight for the cores.
ENV PATH=/opt/lab/bin:$PATH HOME=/home/lab LAB_CACHE=/lab/cache LAB_STARTER=/lab/starter PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
# A volume takes over the owner of the folder it is mounted on: the lab must be able to write to both.
RUN useradd --create-home --uid 1000 lab && mkdir -p /lab/cache /lab/certificates && chown -R lab:lab /lab
COPY --from=build /opt/lab /opt/lab
WORKDIR /lab
COPY --chown=lab:lab .streamlit .streamlit
COPY --chown=lab:lab app.py ./
COPY --chown=lab:lab lab lab
COPY --chown=lab:lab pages pages
# Not under /lab/cache: a volume that is older than the image would hide it.
COPY --chown=lab:lab cache/starter /lab/starter
USER lab
VOLUME /lab/cache
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=40s \
    CMD python3 -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=4)"
# Run with --init (compose: init: true), so that the engine's processes are reaped.
CMD ["streamlit", "run", "app.py", "--server.address", "0.0.0.0", "--server.port", "8501", "--server.headless", "true"]
