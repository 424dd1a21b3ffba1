import Crypto
import Foundation
import HTTP
import HTTPTypes
import Mustache
import Text

/// Renders pages: the layout around the template of a page.
struct ConsoleTemplates: Sendable {
  private static let common: [String: [UInt8]] = [
    "layout": PackageResources.layout_mustache, "moment": PackageResources.moment_mustache,
    "error": PackageResources.error_mustache, "refusal": PackageResources.refusal_mustache,
    "signin": PackageResources.signin_mustache,
  ]

  private let library: MustacheLibrary

  /// - Parameter templates: those of all screens.
  /// - Throws: for a template that cannot be parsed. All are part of the program.
  init(_ templates: [String: [UInt8]]) throws {
    MustacheContentTypes.register(SafeHTML(), named: SafeHTML.name)
    var library = MustacheLibrary()
    for (name, bytes) in Self.common.merging(templates, uniquingKeysWith: { first, _ in first }) {
      // Partials do not inherit the content type, so each template has its own pragma.
      let text = "{{% CONTENT_TYPE:\(SafeHTML.name)}}" + String(decoding: bytes, as: UTF8.self)
      try library.register(text, named: name)
    }
    self.library = library
  }

  /// What the layout shows around a page.
  struct Frame: Sendable {
    var title: String
    /// `nil` for the page that signs in.
    var person: String?
    var role: String?
    var navigation: [Entry] = []
    /// The text in the search box; `nil` for a person who may not search.
    var search: String?
    /// Whether the search finds children's devices by name: an app has them.
    var searchesNames = false
    /// Whether the search finds e-mail addresses: the database's role may read them.
    var searchesEmail = false
    /// The banners of switches that are on.
    var banners: [String] = []
    var refreshes = false
    /// The rendered page.
    fileprivate var body = ""
    fileprivate let version = ConsoleStatic.version

    struct Entry: Sendable {
      let label: String
      let path: String
      let isCurrent: Bool
    }

    init(title: String) { self.title = title }
  }

  /// - Throws: for an unknown template.
  func render(_ template: String, _ content: any Sendable, in frame: Frame) throws -> [UInt8] {
    var frame = frame
    guard let body = library.render(content, withTemplate: template) else {
      throw UnknownTemplate(name: template)
    }
    frame.body = body
    return Array((library.render(frame, withTemplate: "layout") ?? "").utf8)
  }

  private struct UnknownTemplate: Error { let name: String }
}

/// Escapes what a template shows.
struct SafeHTML: MustacheContentType {
  static let name = "CONSOLE"

  func escapeText(_ text: String) -> String { text.escapedForHTML }
}

/// The style, the script and the icon, under addresses that change with their contents.
enum ConsoleStatic {
  /// The path, the content type and the content of each file.
  static let files: [(path: String, contentType: String, bytes: [UInt8])] = [
    (
      "/console/static/console.css", "text/css; charset=utf-8",
      PackageResources.console_css + PackageResources.charts_css
    ),
    ("/console/static/console.js", "text/javascript; charset=utf-8", PackageResources.console_js),
    ("/console/static/icon.svg", "image/svg+xml", PackageResources.icon_svg),
  ]

  /// The beginning of the SHA-256 of all files.
  static let version: String = {
    var hash = SHA256()
    for file in files { hash.update(data: file.bytes) }
    return hash.finalize().prefix(6).map { byte in
      let digits = String(byte, radix: 16)
      return digits.count == 1 ? "0" + digits : digits
    }.joined()
  }()

  static func addRoutes(to router: inout Router) {
    for file in files {
      let response = Response(
        headers: [
          .contentType: file.contentType, .cacheControl: "private, max-age=86400",
          .xContentTypeOptions: "nosniff",
        ], body: file.bytes)
      router.onImmediate(.get, file.path) { _ in response }
    }
  }
}
