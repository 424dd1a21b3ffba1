// The types of addresses and instants in this module's interface.
@_exported import struct Platform.IPAddress
@_exported import struct Platform.IPNetwork
@_exported import struct Platform.MonotonicInstant
@_exported import struct Sockets.SocketAddress
