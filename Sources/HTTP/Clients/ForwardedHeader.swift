public import HTTPTypes

/// The field in which the proxies in front of this server write who called them.
///
/// A proxy hands on what it does not know, so whatever it does not write itself is the caller's own. That is why one
/// field is believed and the other never looked at: a server that took whichever is there would let callers choose.
public enum ForwardedHeader: String, Sendable, Hashable, CaseIterable {
  /// `X-Forwarded-For`, which is no standard but is what most proxies send: addresses with commas between them.
  case xForwardedFor = "x-forwarded-for"
  /// `Forwarded` (RFC 7239): elements with commas between them, in which `for=` is the address.
  case forwarded

  /// Whether this is the field.
  func names(_ field: HTTPField) -> Bool { field.name.canonicalName == rawValue }

  /// Where the last element of a list begins.
  ///
  /// The end of the list is the proxy's, and what is before it the caller's; so quotes are counted from the end, where
  /// they are in pairs, and a quote that a caller has opened and not closed changes nothing.
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

  /// Whether an odd number of backslashes stands before it (RFC 9110 §5.6.4).
  private static func isEscaped(
    _ place: Substring.UTF8View.Index, in text: Substring.UTF8View
  ) -> Bool {
    !text[..<place].reversed().prefix { $0 == UInt8(ascii: "\\") }.count.isMultiple(of: 2)
  }

  /// The address that an element tells, without its port; nil if it tells none or cannot be read.
  func address(in element: Substring.UTF8View) -> IPAddress? {
    switch self {
    case .xForwardedFor: ForwardedNode.address(in: element.trimmingBlanks, isBracketed: false)
    case .forwarded: ForwardedElement.address(in: element)
    }
  }
}

extension HTTPField {
  /// Whether it is a field in which proxies write who called them.
  public var isForwarded: Bool { ForwardedHeader.allCases.contains { $0.names(self) } }
}

/// An address as proxies write it, by some with a port, which is dropped (RFC 7239 §6).
enum ForwardedNode {
  /// - Parameter isBracketed: whether an IPv6 address must stand in brackets also where no port follows.
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
  /// Without spaces and tabs at its ends.
  var trimmingBlanks: Substring.UTF8View {
    let isBlank: (UInt8) -> Bool = { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    var text = drop(while: isBlank)
    while let last = text.last, isBlank(last) { text.removeLast() }
    return text
  }
}
