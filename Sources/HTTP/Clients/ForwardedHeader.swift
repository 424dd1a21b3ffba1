public import HTTPTypes
import Platform

/// The header field in which proxies name their caller.
///
/// A proxy forwards the fields that it does not write, so the client controls them. Only the configured field is read;
/// a server that accepted either field would let clients forge their address.
public enum ForwardedHeader: String, Sendable, Hashable, CaseIterable {
  /// `X-Forwarded-For`, a de facto standard: addresses separated by commas.
  case xForwardedFor = "x-forwarded-for"
  /// `Forwarded` (RFC 7239): elements separated by commas, with the address in `for=`.
  case forwarded

  /// Whether this is the field.
  func names(_ field: HTTPField) -> Bool { field.name.canonicalName == rawValue }

  /// The start of the last element of a list.
  ///
  /// Quotation marks are matched from the end, which the trusted proxy wrote. So an unclosed quotation mark from the
  /// client has no effect.
  func startOfLastElement(of list: Substring.UTF8View) -> Substring.UTF8View.Index {
    let comma = UInt8(ascii: ",")
    guard self == .forwarded else {
      return list.lastIndex(of: comma).map { list.index(after: $0) } ?? list.startIndex
    }
    var isQuoted = false
    var place = list.endIndex
    while place > list.startIndex {
      let before = list.index(before: place)
      if list[before] == comma, !isQuoted { return place }
      if list[before] == UInt8(ascii: "\""), !Self.isEscaped(before, in: list) { isQuoted.toggle() }
      place = before
    }
    return list.startIndex
  }

  /// Whether an odd number of backslashes precedes the byte (RFC 9110 §5.6.4).
  private static func isEscaped(
    _ place: Substring.UTF8View.Index, in text: Substring.UTF8View
  ) -> Bool {
    !text[..<place].reversed().prefix { $0 == UInt8(ascii: "\\") }.count.isMultiple(of: 2)
  }

  /// The address in an element, without its port; nil if there is none or it is malformed.
  func address(in element: Substring.UTF8View) -> IPAddress? {
    switch self {
    case .xForwardedFor: ForwardedNode.address(in: element.trimmingBlanks, isBracketed: false)
    case .forwarded: ForwardedElement.address(in: element)
    }
  }
}

extension HTTPField {
  /// Whether proxies name their caller in this field.
  public var isForwarded: Bool { ForwardedHeader.allCases.contains { $0.names(self) } }
}

/// A node identifier: an address with an optional port, which is ignored (RFC 7239 §6).
enum ForwardedNode {
  /// - Parameter isBracketed: whether an IPv6 address without a port needs brackets too.
  static func address(in text: Substring.UTF8View, isBracketed: Bool) -> IPAddress? {
    let colon = UInt8(ascii: ":")
    if text.first == UInt8(ascii: "[") {
      guard let end = text.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      let inner = text[text.index(after: text.startIndex)..<end]
      let after = text[text.index(after: end)...]
      guard inner.contains(colon), after.isEmpty || (after.first == colon && isPort(after.dropFirst())) else {
        return nil
      }
      return IPAddress(inner)
    }
    // One colon separates a port from an IPv4 address; more of them are an IPv6 address.
    if let first = text.firstIndex(of: colon), isBracketed || first == text.lastIndex(of: colon) {
      guard isPort(text[text.index(after: first)...]) else { return nil }
      return IPAddress(text[..<first])
    }
    return IPAddress(text)
  }

  private static func isPort(_ text: some Collection<UInt8>) -> Bool {
    (1...5).contains(text.count)
      && text.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }
}

extension Substring.UTF8View {
  /// The text without spaces and tabs at its ends.
  var trimmingBlanks: Substring.UTF8View {
    let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    var text = drop(while: isBlank)
    while let last = text.last, isBlank(last) { text.removeLast() }
    return text
  }
}

/// One element of `Forwarded`: `for=192.0.2.60;proto=http;by=203.0.113.43` (RFC 7239 §4).
enum ForwardedElement {
  /// The address in `for`; nil if `for` is missing, repeated, `unknown` or an obfuscated name, or if the element is
  /// malformed.
  static func address(in element: Substring.UTF8View) -> IPAddress? {
    var rest = element.trimmingBlanks
    var found: IPAddress?
    var names: [[UInt8]] = []
    while !rest.isEmpty {
      // A pair may be empty.
      guard rest.first != UInt8(ascii: ";") else {
        rest.removeFirst()
        continue
      }
      guard let (name, value) = takePair(from: &rest), !names.contains(name),
        rest.isEmpty || rest.first == UInt8(ascii: ";")
      else { return nil }
      names.append(name)
      guard name.elementsEqual("for".utf8) else { continue }
      let node = String(decoding: value, as: UTF8.self)[...].utf8
      guard let address = ForwardedNode.address(in: node, isBracketed: true) else { return nil }
      found = address
    }
    return found
  }

  /// Removes a pair from the front: the name in lower case, and the value.
  private static func takePair(from text: inout Substring.UTF8View) -> (name: [UInt8], value: [UInt8])? {
    let name = text.prefix(while: ASCII.isTokenCharacter)
    text = text[name.endIndex...]
    guard !name.isEmpty, text.popFirst() == UInt8(ascii: "="), let value = takeValue(from: &text) else {
      return nil
    }
    return (name.map(ASCII.lowercased), value)
  }

  /// Removes a token or a quoted string (RFC 9110 §5.6.2, §5.6.4) from the front, and returns its text.
  private static func takeValue(from text: inout Substring.UTF8View) -> [UInt8]? {
    guard text.first == UInt8(ascii: "\"") else {
      let token = text.prefix(while: ASCII.isTokenCharacter)
      text = text[token.endIndex...]
      return token.isEmpty ? nil : Array(token)
    }
    text.removeFirst()
    var value: [UInt8] = []
    while let byte = text.popFirst() {
      switch byte {
      case UInt8(ascii: "\""): return value
      case UInt8(ascii: "\\"):
        guard let escaped = text.popFirst() else { return nil }
        value.append(escaped)
      default: value.append(byte)
      }
    }
    return nil
  }
}
