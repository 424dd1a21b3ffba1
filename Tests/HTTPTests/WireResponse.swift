@testable import HTTP

/// A response, parsed by the rules of HTTP, independently of the server's encoder.
struct WireResponse: Equatable {
  var status = 0
  var fields: [(name: String, value: String)] = []
  var body: [UInt8] = []

  var text: String { String(decoding: body, as: UTF8.self) }

  subscript(name: String) -> String? {
    let values = fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    return values.count == 1 ? values[0] : nil
  }

  static func == (left: WireResponse, right: WireResponse) -> Bool {
    left.status == right.status && left.body == right.body
      && left.fields.elementsEqual(right.fields) { $0.name == $1.name && $0.value == $1.value }
  }

  struct Malformed: Error { let reason: String }

  /// Parses all responses in the bytes.
  /// - Parameter bodiless: for each response in order, whether its request was `HEAD`.
  static func all(in bytes: [UInt8], bodiless: [Bool] = []) throws -> [WireResponse] {
    var responses: [WireResponse] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let isBodiless = responses.count < bodiless.count && bodiless[responses.count]
      responses.append(try take(&rest, isBodiless: isBodiless))
    }
    return responses
  }

  /// Removes and returns the first response; nil if it is incomplete.
  static func first(in bytes: inout [UInt8]) -> WireResponse? {
    var rest = bytes[...]
    guard let response = try? take(&rest, isBodiless: false) else { return nil }
    bytes = Array(rest)
    return response
  }

  private static func take(_ rest: inout ArraySlice<UInt8>, isBodiless: Bool) throws -> WireResponse {
    var response = WireResponse()
    let line = try takeLine(&rest)
    guard line.hasPrefix("HTTP/1.1 "), let status = Int(line.dropFirst(9).prefix(3)) else {
      throw Malformed(reason: "status line '\(line)'")
    }
    response.status = status
    while true {
      let line = try takeLine(&rest)
      if line.isEmpty { break }
      guard let colon = line.firstIndex(of: ":"), line[colon...].hasPrefix(": ") else {
        throw Malformed(reason: "field '\(line)'")
      }
      response.fields.append((String(line[..<colon]), String(line[colon...].dropFirst(2))))
    }
    guard status >= 200, status != 204, status != 304 else { return response }
    guard let length = response["Content-Length"].flatMap({ Int($0) }) else {
      throw Malformed(reason: "no single Content-Length")
    }
    guard !isBodiless else { return response }
    guard rest.count >= length else { throw Malformed(reason: "body cut short") }
    response.body = Array(rest.prefix(length))
    rest = rest.dropFirst(length)
    return response
  }

  private static func takeLine(_ rest: inout ArraySlice<UInt8>) throws -> String {
    guard let end = rest.firstIndex(of: 0x0A), end > rest.startIndex, rest[end - 1] == 0x0D else {
      throw Malformed(reason: "no line end")
    }
    defer { rest = rest[(end + 1)...] }
    return String(decoding: rest[rest.startIndex..<(end - 1)], as: UTF8.self)
  }
}
