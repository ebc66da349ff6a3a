FROM python:3.12-slim AS build
WORKDIR /build
COPY constraints.txt LICENSE README.md pyproject.toml ./
COPY app app
COPY migrations migrations
RUN python -m venv /opt/perdure \
    && /opt/perdure/bin/pip install --no-cache-dir -c constraints.txt setuptools \
    && /opt/perdure/bin/pip install --no-cache-dir -c constraints.txt --no-build-isolation .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home perdure
COPY --from=build /opt/perdure /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH PYTHONUNBUFFERED=1
# Agents given as files (PERDURE_AGENTS=agents.py) are looked for here.
WORKDIR /srv/perdure
USER perdure
EXPOSE 8000
# Of the API; where the image runs something else, compose.yaml turns it off.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", \
    "import os, urllib.request as r; r.urlopen('http://127.0.0.1:%s/health/live' % (os.environ.get('PERDURE_PORT') or 8000), timeout=2)"]
ENTRYPOINT ["perdure"]
CMD ["api"]
