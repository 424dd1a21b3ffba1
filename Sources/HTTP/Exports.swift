// Whoever starts a server or reads a request's address should not need to import the sockets below it.
@_exported import struct Sockets.SocketAddress
