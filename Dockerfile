# Headroom on a CPU, by the same route as everywhere: make install, then make demo (docs/install.md).
FROM python:3.11-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git make \
 && rm -rf /var/lib/apt/lists/*

# The environment first, outside the checkout: a change of the code does not install it again.
WORKDIR /headroom
ENV VENV=/opt/venv PATH=/opt/venv/bin:$PATH
COPY Makefile ./
COPY requirements requirements
RUN make install TORCH="-r requirements/torch.txt --index-url https://download.pytorch.org/whl/cpu"

COPY . .
CMD ["make", "demo"]
