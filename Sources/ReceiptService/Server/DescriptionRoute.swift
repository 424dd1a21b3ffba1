import APIDescription
import Crypto
import HTTP
import HTTPTypes

/// `GET /openapi.yaml`: the description of the API.
enum DescriptionRoute {
  /// For how long caches may keep it without revalidation, in seconds.
  private static let maximumAge = 3_600

  private static let entityTag =
    "\"" + SHA256.hash(data: APIDescription.yaml).prefix(16).map(hexadecimal).joined() + "\""

  static func respond(to request: Request) -> Response {
    let headers: HTTPFields = [
      .contentType: "application/yaml", .eTag: entityTag,
      .cacheControl: "public, max-age=\(maximumAge)",
    ]
    guard !hasCurrentCopy(request) else {
      var kept = headers
      kept[.contentType] = nil
      return Response(status: .notModified, headers: kept)
    }
    return Response(headers: headers, body: APIDescription.yaml)
  }

  /// Whether `If-None-Match` has the entity tag (RFC 9110 section 13.1.2). The tag contains no comma, so splitting the list
  /// at commas is enough.
  private static func hasCurrentCopy(_ request: Request) -> Bool {
    guard let field = request.headers[.ifNoneMatch] else { return false }
    return field.split(separator: ",").contains { item in
      let candidate = item.drop { $0 == " " || $0 == "\t" }
      let tag = candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate
      return candidate == "*" || tag.hasPrefix(entityTag)
    }
  }

  private static func hexadecimal(_ byte: UInt8) -> String {
    String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
  }
}
