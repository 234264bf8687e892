# foreduce on a bare Debian 12: docker build -t foreduce . && docker run --rm foreduce predict scenarios/bert-large-p3dn.yaml
FROM debian:12 AS build
COPY . /foreduce
WORKDIR /foreduce
RUN ./.install file dpkg-dev && cmake --preset release -DBUILD_TESTING=OFF && cmake --build --preset release && cd build/release && cpack

FROM debian:12
COPY --from=build /foreduce/build/release/foreduce_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/foreduce_*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
WORKDIR /usr/share/foreduce
ENTRYPOINT ["foreduce"]
