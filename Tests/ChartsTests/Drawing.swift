import Foundation

#if canImport(FoundationXML)
import FoundationXML
#endif

/// The elements of a drawing, as an XML parser reads them.
final class Drawing: NSObject, XMLParserDelegate {
  struct Element {
    var name: String
    var attributes: [String: String]
    var text = ""

    subscript(key: String) -> String? { attributes[key] }

    func number(_ key: String) -> Double? { attributes[key].flatMap(Double.init) }

    func has(class name: String) -> Bool {
      (attributes["class"] ?? "").split(separator: " ").contains { $0 == name }
    }

    /// The numbers of `data-values`; `nil` for `-`.
    var values: [Double?] { (self["data-values"] ?? "").split(separator: " ").map { Double($0) } }

    /// The points of path data, which has absolute M and L alone.
    var points: [(x: Double, y: Double)] {
      (self["d"] ?? "").split { "MLZ".contains($0) }.map { pair in
        let numbers = pair.split(separator: " ").map { Double($0) ?? .nan }
        return (numbers.first ?? .nan, numbers.count == 2 ? numbers[1] : .nan)
      }
    }
  }

  private(set) var elements: [Element] = []
  private(set) var isWellFormed = false
  private var open: [Int] = []

  init(_ text: String) {
    super.init()
    let parser = XMLParser(data: Data(text.utf8))
    parser.delegate = self
    isWellFormed = parser.parse()
  }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    open.append(elements.count)
    elements.append(Element(name: name, attributes: attributes))
  }

  func parser(
    _ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?
  ) {
    open.removeLast()
  }

  func parser(_ parser: XMLParser, foundCharacters text: String) {
    if let last = open.last { elements[last].text += text }
  }

  func all(_ name: String, class: String? = nil) -> [Element] {
    elements.filter { $0.name == name && (`class` == nil || $0.has(class: `class` ?? "")) }
  }

  /// The texts of tooltips.
  var tooltips: [String] { all("title").map(\.text) }

  /// All coordinates with the width or height that bounds them.
  var coordinates: [(value: Double, limit: Double)] {
    let box = (elements.first?["viewBox"] ?? "").split(separator: " ").compactMap { Double($0) }
    guard box.count == 4 else { return [(.nan, 0)] }
    var found: [(Double, Double)] = []
    for element in elements.dropFirst() {
      for (key, limit) in [("x", box[2]), ("cx", box[2]), ("y", box[3]), ("cy", box[3])] {
        if element[key] != nil { found.append((element.number(key) ?? .nan, limit)) }
      }
      if element.name == "rect" {
        let right = (element.number("x") ?? 0) + (element.number("width") ?? .nan)
        let bottom = (element.number("y") ?? 0) + (element.number("height") ?? .nan)
        found += [(right, box[2]), (bottom, box[3])]
      }
      for point in element.points { found += [(point.x, box[2]), (point.y, box[3])] }
    }
    return found
  }
}
