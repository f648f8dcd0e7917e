# Two images without a shell, a libc or anything else but the commands.
# `make images` builds the binaries first and then both targets; nothing is
# fetched.

FROM scratch AS proxy
# Who runs in here owns the place of the keys: a fresh volume at /keys takes
# over owner and mode of the folder.
COPY --chown=65532:65532 bin/image/keys /keys
COPY bin/image/proxy /proxy
USER 65532:65532
ENTRYPOINT ["/proxy"]

# An app node brings the proxy along for its health check.
FROM proxy AS appnode
COPY bin/image/appnode /appnode
ENTRYPOINT ["/appnode"]
