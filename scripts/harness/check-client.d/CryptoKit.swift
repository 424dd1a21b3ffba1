// swift-format-ignore-file
// CryptoKit's interface is that of swift-crypto.
@_exported import Crypto
