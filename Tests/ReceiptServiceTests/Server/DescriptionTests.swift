import Curl
import Foundation
import HTTP
import HTTPTypes
import Testing

@testable import ReceiptService

/// `docs/openapi.yaml` matches the routes. scripts/harness/check-api checks its examples and schemas.
@Suite struct DescriptionTests {
  @Test func `openapi.yaml describes exactly the routes, with their ports and body limits`() async throws {
    try await withHarness { harness in
      let described = try DescribedAPI().operations
      let clients = harness.service.clientRouter.routes.map { Self.operation($0, isOnAdminPort: false) }
      // The console's pages are for people, not for programs.
      let operators = harness.service.adminRouter.routes.filter { !$0.pattern.hasPrefix("/console") }
        .map { Self.operation($0, isOnAdminPort: true) }
      let routed = clients + operators
      #expect(Set(described).subtracting(routed).isEmpty, "described, but not so in the router")
      #expect(Set(routed).subtracting(described).isEmpty, "in the router, but not so described")
      #expect(described.count == routed.count)
    }
  }

  private static func operation(_ route: Route, isOnAdminPort: Bool) -> DescribedAPI.Operation {
    DescribedAPI.Operation(
      method: route.method.rawValue, pattern: route.pattern, maximumBodyLength: route.maximumBodyLength,
      isOnAdminPort: isOnAdminPort)
  }

  @Test func `the error codes of the source, openapi.yaml and the API guide are the same`() throws {
    let words = try String(
      contentsOf: DescribedAPI.file.deletingLastPathComponent().appending(path: "api.md"), encoding: .utf8)
    let table = words.split(separator: "\n").drop { !$0.hasPrefix("| code |") }
    // A cell may have several codes of one status.
    let listed = table.dropFirst(2).prefix { $0.hasPrefix("|") }.flatMap { row in
      row.split(separator: "|")[0].split(separator: "`").filter { $0.allSatisfy { $0.isLetter || $0 == "_" } }
    }.map(String.init)
    #expect(listed.count > 20)
    let codes = try DescribedAPI().codes
    #expect(Set(codes) == Set(listed))
  }

  @Test func `the server serves openapi.yaml unchanged and answers 304 to a client that has it`() async throws
  {
    let file = try Data(contentsOf: DescribedAPI.file)
    try await withHarness { harness in
      let first = try await harness.description()
      #expect(first.status == 200)
      #expect(Data(first.body) == file)
      #expect(first.headers[.contentType] == "application/yaml")
      #expect(first.headers[.cacheControl] == "public, max-age=3600")
      let tag = try #require(first.headers[.eTag])

      for known in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
        let again = try await harness.description(unless: known)
        #expect(again.status == 304, "\(known)")
        #expect(again.body.isEmpty)
        #expect(again.headers[.eTag] == tag)
      }
      for other in ["\"other\"", String(tag.dropLast()), String(tag.dropFirst()), ""] {
        let answer = try await harness.description(unless: other)
        #expect(answer.status == 200, "\(other)")
      }
    }
  }
}

extension Harness {
  fileprivate func description(unless tag: String? = nil) async throws -> Answer {
    var headers: HTTPFields = [:]
    if let tag { headers[.ifNoneMatch] = tag }
    let answer = try await http.send(CurlRequest(url: "http://\(address)/openapi.yaml", headers: headers))
    return Answer(status: answer.status, headers: answer.headers, body: answer.body)
  }
}
