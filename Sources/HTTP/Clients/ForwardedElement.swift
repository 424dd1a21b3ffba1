import Platform

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
