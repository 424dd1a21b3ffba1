import HTTPTypes

extension HTTPField.Name {
  /// The field name in these bytes. Common names are constants in their usual spelling, which saves two strings each.
  init?(copying bytes: Span<UInt8>) {
    switch bytes.count {
    case 4 where ASCII.isEqual(bytes, lowercase: "host"): self = .host
    case 6 where ASCII.isEqual(bytes, lowercase: "accept"): self = .accept
    case 10 where ASCII.isEqual(bytes, lowercase: "user-agent"): self = .userAgent
    case 10 where ASCII.isEqual(bytes, lowercase: "connection"): self = .connection
    case 12 where ASCII.isEqual(bytes, lowercase: "content-type"): self = .contentType
    case 13 where ASCII.isEqual(bytes, lowercase: "authorization"): self = .authorization
    case 14 where ASCII.isEqual(bytes, lowercase: "content-length"): self = .contentLength
    case 15 where ASCII.isEqual(bytes, lowercase: "accept-encoding"): self = .acceptEncoding
    case 15 where ASCII.isEqual(bytes, lowercase: "accept-language"): self = .acceptLanguage
    default: self.init(String(copying: bytes))
    }
  }

  /// swift-http-types has no constant for it, because it uses `:authority`.
  static let host = HTTPField.Name("Host") ?? .accept  // Never `accept`: "Host" is a token.
}
