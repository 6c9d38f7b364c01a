# A static binary alone in an image: no shell, no package manager, not root.
#
#	docker build --build-arg COMMIT=$(git rev-parse --short HEAD) -t lockproxy .
#	docker run -p 6380:6380 -e LOCKPROXY_REQUIREPASS=secret lockproxy --upstream redis:6379

FROM golang:1.26 AS build
ARG VERSION=0.1.0
ARG COMMIT=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/lockproxy ./cmd/lockproxy

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/lockproxy /lockproxy
COPY LICENSE NOTICE /
USER 65532:65532
# Reached from outside the container, it needs a password (LOCKPROXY_REQUIREPASS)
# and says so. The admin address stays inside, for the health check.
ENV LOCKPROXY_LISTEN=0.0.0.0:6380
EXPOSE 6380
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["/lockproxy", "health"]
ENTRYPOINT ["/lockproxy"]
