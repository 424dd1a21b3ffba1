import Actions
import Configuration
import Crypto
import Deliveries
import Foundation
import HTTP
import HTTPTypes
import Logging
import Numbers
import Postgres
import Requests
import Subscriptions
import Support
import Work

/// The console: pages for support, owners and operators, under `/console` on the admin port.
///
/// It shows what the views and the support API know, and acts only through the same actions. Every page works without
/// the script.
package struct Console: Sendable {
  /// What the pages read.
  package struct Parts: Sendable {
    let catalog: AppCatalog
    let pool: PostgresPool
    let desk: SupportDesk
    let outbox: Outbox
    let people: People
    let figures: BusinessFigures
    /// The actions of support, each of which has a form.
    let actions: [ConsoleAction]
    /// What the page *Health* shows of this server.
    let server: ServerFacts
    let rateLimits: ClientRateLimits
    /// The proxy that names people; `nil` where none is configured.
    let singleSignOn: SingleSignOn?
    let clock: ServiceClock
    let logger: Logger
    /// Runs a page in one of the places of support; see `SupportPlaces`.
    let bound: @Sendable (SupportOperation, @Sendable () async throws -> Response) async throws -> Response

    /// The parts of a service.
    package init(
      catalog: AppCatalog, pool: PostgresPool, desk: SupportDesk, outbox: Outbox, people: People,
      figures: BusinessFigures, actions: [ConsoleAction], server: ServerFacts, rateLimits: ClientRateLimits,
      singleSignOn: SingleSignOn?, clock: ServiceClock, logger: Logger,
      bound:
        @escaping @Sendable (SupportOperation, @Sendable () async throws -> Response) async throws -> Response
    ) {
      self.catalog = catalog
      self.pool = pool
      self.desk = desk
      self.outbox = outbox
      self.people = people
      self.figures = figures
      self.actions = actions
      self.server = server
      self.rateLimits = rateLimits
      self.singleSignOn = singleSignOn
      self.clock = clock
      self.logger = logger
      self.bound = bound
    }
  }

  let parts: Parts
  private let screens: [ConsoleScreen]
  let templates: ConsoleTemplates

  /// The screens in the order of the navigation. The first one that a person may see is the person's start page.
  static func screens(_ parts: Parts) -> [ConsoleScreen] {
    [
      search(parts), customer(parts), lists(parts), numbers(parts), report(parts), queues(parts),
      record(parts),
      people(parts), configuration(parts), whatIf(parts), health(parts), actions(parts),
    ]
  }

  /// Builds the pages.
  package init(_ parts: Parts) {
    self.parts = parts
    screens = Self.screens(parts)
    do {
      templates = try ConsoleTemplates(
        screens.reduce(into: [:]) { all, screen in all.merge(screen.templates) { first, _ in first } })
    } catch {
      // The templates are compiled in, and a test renders every one of them.
      preconditionFailure("a template of the console cannot be parsed: \(error)")
    }
  }

  /// Adds the routes.
  package func addRoutes(to router: inout Router) {
    router.on(.get, "/console", start(for:))
    router.on(.get, "/console/sign-in") { request in
      try await self.catching(request, nil) { try self.signInPage(for: request) }
    }
    router.on(.post, "/console/sign-in", maximumBodyLength: 4_096) { request in
      try await self.catching(request, nil) { try await self.signIn(request) }
    }
    router.on(.post, "/console/sign-out", maximumBodyLength: 4_096) { request in
      try await self.catching(request, nil) { try await self.signOut(request) }
    }
    for page in screens.flatMap(\.pages) {
      router.on(page.method, page.path, maximumBodyLength: page.maximumBodyLength) { request in
        try await self.respond(to: request, page)
      }
    }
  }

  /// Adds the routes of files that need no sign-in.
  package func addImmediateRoutes(to router: inout Router) { ConsoleStatic.addRoutes(to: &router) }

  // MARK: Pages

  private func respond(to request: Request, _ page: ConsolePage) async throws -> Response {
    var person: Person?
    do {
      person = try await self.person(of: request)
    } catch {
      return try await catching(request, nil) { throw error }
    }
    guard let person else { return signInRedirect(for: request) }
    return try await catching(request, person) {
      let isWrite = page.method == .post
      if isWrite { try BrowserRules.checkOrigin(of: request) }
      let asked = ConsoleRequest(
        request: request, person: person,
        form: isWrite ? try BrowserRules.form(in: request, allowsLines: page.takesLines) : Query(),
        instant: parts.clock.now())
      return try await mappingRefusals {
        try asked.actor.check(page.operation)
        return try await parts.bound(page.operation) { [parts] in
          switch try await page.respond(asked) {
          case .redirect(let path): return Self.redirect(to: path)
          case .file(var response):
            for field in BrowserRules.headers
            where field.name != .cacheControl || response.headers[.cacheControl] == nil {
              response.headers[field.name] = field.value
            }
            return response
          case .page(let content):
            var frame = frame(content.title, for: person, at: request.path)
            frame.refreshes = content.refreshes
            if frame.search != nil {
              frame.search = content.search
              frame.searchesEmail = try await parts.desk.findsEmailAddresses()
            }
            frame.banners = try await Self.banners(parts)
            return Response(
              status: content.status, headers: Self.pageHeaders,
              body: try templates.render(content.template, content.content, in: frame))
          }
        }
      }
    }
  }

  static let pageHeaders: HTTPFields = {
    var headers = BrowserRules.headers
    headers[.contentType] = "text/html; charset=utf-8"
    return headers
  }()

  private func frame(_ title: String, for person: Person?, at path: String) -> ConsoleTemplates.Frame {
    var frame = ConsoleTemplates.Frame(title: title)
    guard let person else { return frame }
    frame.person = person.name
    frame.role = person.role.rawValue
    if person.role >= SupportOperation.find.leastRole {
      frame.search = ""
      frame.searchesNames = parts.catalog.apps.contains { $0.customer == .device }
    }
    frame.navigation = visibleScreens(for: person).compactMap { screen in
      screen.entry.map {
        ConsoleTemplates.Frame.Entry(
          label: $0, path: screen.path,
          isCurrent: path == screen.path || screen.pages.contains { Self.matches($0.path, path) })
      }
    }
    return frame
  }

  /// Whether a path is one of a page's pattern.
  private static func matches(_ pattern: String, _ path: String) -> Bool {
    let (left, right) = (pattern.split(separator: "/"), path.split(separator: "/"))
    return left.count == right.count && zip(left, right).allSatisfy { $0 == $1 || $0.hasPrefix("{") }
  }

  func visibleScreens(for person: Person) -> [ConsoleScreen] {
    screens.filter { person.role >= $0.operation.leastRole }
  }

  /// A line for each app whose features are open to everyone, or in which no trial starts.
  private static func banners(_ parts: Parts) async throws -> [String] {
    let open = try await parts.pool.query(
      "SELECT bundle_id FROM free_access WHERE ends_at IS NULL AND starts_at <= now() ORDER BY 1 LIMIT 20"
    ).map {
      "Free access is on: every feature of \(try $0.decode("bundle_id", as: String.self)) is open to everyone."
    }
    let paused = parts.catalog.apps.filter { $0.newTrials == .paused }.prefix(20).map {
      "New trials are paused: no trial of \($0.bundleID) starts, and running ones go on."
    }
    return open + paused
  }

  // MARK: Errors

  private struct ErrorContent: Sendable {
    var status: Int
    var title: String
    var code: String
    var message: String
    var detail: String
    var request: String
  }

  /// Makes every error a page with the code of the API's contract.
  func catching(
    _ request: Request, _ person: Person?, _ body: () async throws -> Response
  ) async throws -> Response {
    var problem: Problem
    do {
      return try await body()
    } catch let known as Problem {
      problem = known
    } catch let error as PostgresError where error.isAnsweredUnavailable {
      if error.isSchemaIncomplete { parts.logger.reportIncompleteSchema(error) }
      problem = ServiceError.databaseUnavailable
    } catch {
      parts.logger.error(
        "a page of the console failed",
        metadata: ["request": "\(request.id)", "route": "\(request.routePattern)", "error": "\(error)"])
      problem = .internalError
    }
    guard problem.page == nil else { throw problem }
    // The detail quotes what people typed, and names customers.
    problem.loggedDetail = problem.title
    let content = ErrorContent(
      status: problem.status.code, title: problem.title, code: problem.code.rawValue,
      message: problem.message, detail: problem.detail, request: request.id)
    problem.page = try templates.render(
      "error", content, in: frame(problem.title, for: person, at: request.path))
    problem.headers.append(contentsOf: Self.pageHeaders)
    throw problem
  }
}
