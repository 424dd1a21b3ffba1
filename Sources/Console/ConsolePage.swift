import Actions
import Foundation
import HTTP
import HTTPTypes

/// A part of the console: its pages, their templates, and its entry in the navigation.
///
/// A new screen is one file with a function that makes a value of this type, one template, and one line in
/// ``Console/screens(_:)``.
struct ConsoleScreen: Sendable {
  /// The entry in the navigation, which leads to ``path``; `nil` for a part that other pages link to.
  var entry: String?
  /// The path of the entry, such as `/console/numbers`.
  var path: String
  /// The least role of the entry.
  var operation: SupportOperation
  /// The pages.
  var pages: [ConsolePage]
  /// The Mustache templates of the pages by name, such as `["numbers": PackageResources.numbers_mustache]`.
  var templates: [String: [UInt8]]
}

/// A page of the console, or a write that leads to one.
struct ConsolePage: Sendable {
  /// `GET`, or `POST` for a write.
  var method: HTTPRequest.Method = .get
  /// The pattern of the route, such as `/console/customer/{id}`.
  var path: String
  /// The operation whose least role the page needs.
  var operation: SupportOperation
  /// The most bytes of a form.
  var maximumBodyLength = 16_384
  /// Whether a value of the form may have several lines.
  var takesLines = false
  /// Makes the page. The console calls it only if the person's role allows `operation`.
  var respond: @Sendable (ConsoleRequest) async throws -> ConsoleAnswer
}

/// A request with a valid session, and the session's person.
struct ConsoleRequest: Sendable {
  let request: Request
  let person: Person
  /// The fields of a form; empty for `GET`.
  let form: Query
  /// The clock's time at the start of the request.
  let instant: Date

  /// The actor in records.
  var actor: SupportActor { .person(person) }
  var query: Query { request.query }

  /// The first value of the query or, in a `POST`, of the form, without surrounding spaces; `nil` if it is empty.
  func value(_ name: String) -> String? {
    let text = (request.method == .post ? form : query)[name]?.trimmingCharacters(in: .whitespaces)
    return text.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// All values of a name, such as those of checkboxes; one value may have several with spaces between.
  func values(_ name: String) -> [String] {
    (request.method == .post ? form : query).values(for: name)
      .flatMap { $0.split(separator: " ").map(String.init) }
  }

  /// Whether the person's role allows an operation.
  func may(_ operation: SupportOperation) -> Bool { person.role >= operation.leastRole }
}

/// The answer of a page.
enum ConsoleAnswer: Sendable {
  /// An HTML page.
  case page(ConsoleContent)
  /// 303 to a path with a query, after a write.
  case redirect(String)
  /// A file, such as CSV.
  case file(Response)

  /// A CSV file.
  static func csv(_ text: String, named name: String) -> ConsoleAnswer {
    var response = Response.text(.ok, text, contentType: "text/csv; charset=utf-8")
    response.headers[.contentDisposition] = "attachment; filename=\"\(name).csv\""
    return .file(response)
  }
}

/// The content of a page inside the layout.
struct ConsoleContent: Sendable {
  /// The status of the response.
  var status = HTTPResponse.Status.ok
  /// The title in the browser's tab.
  var title: String
  /// The name of the template.
  var template: String
  /// What the template shows: a struct or a dictionary. Texts are escaped; `{{{ }}}` is for SVG that this server drew.
  var content: any Sendable
  /// The text in the search box.
  var search = ""
  /// Whether the script fetches the page again every 30 seconds, until the reader pauses it.
  var refreshes = false
}

/// An instant for a reader, for the partial `{{#at}}{{>moment}}{{/at}}`.
struct Moment: Sendable {
  /// RFC 3339, for the attribute `datetime`.
  let iso: String
  /// `2026-11-27 04:43 UTC`
  let text: String
  /// `in 3 days`, `2 hours ago`
  let relative: String

  init(_ date: Date, from now: Date) {
    iso = RFC3339.string(from: date)
    text = iso.prefix(10) + " " + iso.dropFirst(11).prefix(5) + " UTC"
    relative = Self.relative(date.timeIntervalSince(now))
  }

  static func relative(_ seconds: TimeInterval) -> String {
    let units: [(length: TimeInterval, name: String)] = [
      (31_557_600, "year"), (2_629_800, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"),
    ]
    let distance = abs(seconds)
    guard let unit = units.first(where: { distance >= $0.length }) else { return "now" }
    let count = Int(distance / unit.length)
    let words = "\(count) \(unit.name)\(count == 1 ? "" : "s")"
    return seconds < 0 ? "\(words) ago" : "in \(words)"
  }
}

extension String {
  /// The text as a segment of a path or a value of a query.
  var percentEncoded: String {
    var text = ""
    for byte in utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"),
        UInt8(ascii: "."):
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        text += "%" + (digits.count == 1 ? "0" : "") + digits
      }
    }
    return text
  }
}

/// The path of a page with a query, of which empty values are left out.
func link(_ path: String, _ parameters: KeyValuePairs<String, String?>) -> String {
  let pairs = parameters.compactMap { name, value in
    value.flatMap { $0.isEmpty ? nil : "\(name)=\($0.percentEncoded)" }
  }
  return pairs.isEmpty ? path : path + "?" + pairs.joined(separator: "&")
}
