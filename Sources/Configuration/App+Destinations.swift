import Foundation
import Subscriptions

extension CloudKitContainer {
  /// Reads the member `cloudkit` of an app; `nil` if it has none.
  init?(of app: ConfigurationObject) throws(ConfigurationProblem) {
    guard let object = try app.object("cloudkit") else { return nil }
    try object.allowOnly(["container", "environment", "keyID", "key", "recordType", "url"])
    let name = try object.requiredString("container")
    // The name becomes part of a URL path.
    guard name.hasPrefix("iCloud."), name.utf8.allSatisfy({ $0.isLetterOrDigit || $0 == 0x2E || $0 == 0x2D })
    else {
      throw ConfigurationProblem(
        object.path(of: "container"), "must be iCloud. and letters, digits, dots and hyphens")
    }
    let address = try object.string("url")
    if let address, !address.hasPrefix("https://"), !address.hasPrefix("http://") {
      throw ConfigurationProblem(object.path(of: "url"), "must be an http or https address")
    }
    self.init(
      name: name,
      environment: try object.word("environment", as: Environment.self) ?? .production,
      keyID: try object.requiredString("keyID"), keyFile: try object.requiredString("key"),
      recordType: try object.string("recordType") ?? "SubscriptionStatus", address: address)
  }
}

extension BookmarkLimits {
  /// Reads the member `userPreferences` of an app; the usual limits if it has none.
  init(of app: ConfigurationObject) throws(ConfigurationProblem) {
    self.init()
    guard let object = try app.object("userPreferences") else { return }
    try object.allowOnly(["free", "premium"])
    // The column is a 32-bit integer.
    free = try object.integer("free", in: 0...Int(Int32.max)) ?? free
    premium = try object.integer("premium", in: 0...Int(Int32.max)) ?? premium
    guard free <= premium else {
      throw ConfigurationProblem(
        app.path(of: "userPreferences"),
        "gives a customer without premium more bookmarks (free: \(free)) than one with it (premium: \(premium))"
      )
    }
  }
}

extension Reminders {
  /// Reads the member `reminders` of an app; the usual days if it has none.
  init(of app: ConfigurationObject) throws(ConfigurationProblem) {
    self.init()
    guard let object = try app.object("reminders") else { return }
    try object.allowOnly(["trialEndingDays", "graceEndingDays", "graceDaily"])
    trialEndingDays = try object.integer("trialEndingDays", in: 1...365) ?? trialEndingDays
    graceEndingDays = try object.integer("graceEndingDays", in: 1...365) ?? graceEndingDays
    graceDaily = try object.boolean("graceDaily") ?? graceDaily
  }
}

extension WebhookEndpoint {
  /// Reads the member `webhooks` of an app.
  static func all(of app: ConfigurationObject) throws(ConfigurationProblem) -> [WebhookEndpoint] {
    var endpoints: [WebhookEndpoint] = []
    for object in try app.objects("webhooks") ?? [] {
      try object.allowOnly(["url", "secretEnv", "allowPrivateAddresses", "events"])
      var endpoint = try WebhookEndpoint(object)
      endpoint.events = try readEvents(object)
      guard !endpoints.contains(where: { $0.name == endpoint.name }) else {
        throw ConfigurationProblem(object.path(of: "url"), "'\(endpoint.name)' appears twice")
      }
      endpoints.append(endpoint)
    }
    return endpoints
  }

  /// Reads the member `forwardNotifications` of an app; `nil` if it has none.
  static func forwarding(of app: ConfigurationObject) throws(ConfigurationProblem) -> WebhookEndpoint? {
    guard let object = try app.object("forwardNotifications") else { return nil }
    try object.allowOnly(["url", "secretEnv", "allowPrivateAddresses"])
    return try WebhookEndpoint(object)
  }

  /// - Returns: the types of the events to send; `nil` for all.
  private static func readEvents(_ object: ConfigurationObject) throws(ConfigurationProblem) -> Set<String>? {
    guard let names = try object.strings("events") else { return nil }
    let known = [stateEvent] + LifecycleEventType.allCases.map(\.rawValue)
    if names.isEmpty {
      throw ConfigurationProblem(object.path(of: "events"), "must not be empty; leave it out for all events")
    }
    for (index, name) in names.enumerated() where !known.contains(name) {
      throw ConfigurationProblem(
        object.path(of: "events") + "[\(index)]",
        "'\(name)' is no event; there are \(known.joined(separator: ", "))")
    }
    return Set(names)
  }

  private init(_ object: ConfigurationObject) throws(ConfigurationProblem) {
    let text = try object.requiredString("url")
    let isPrivate = try object.boolean("allowPrivateAddresses") ?? false
    guard let url = URL(string: text), url.host() != nil, url.scheme == "https" || url.scheme == "http" else {
      throw ConfigurationProblem(object.path(of: "url"), "must be an https address")
    }
    guard url.scheme == "https" || isPrivate else {
      throw ConfigurationProblem(
        object.path(of: "url"), "must be https, unless allowPrivateAddresses is true")
    }
    guard url.user() == nil, url.password() == nil, url.fragment() == nil else {
      throw ConfigurationProblem(object.path(of: "url"), "must not have a user, password or fragment")
    }
    self.init(
      url: text, secretEnvironmentVariable: try object.requiredString("secretEnv"),
      allowsPrivateAddresses: isPrivate)
  }
}

extension UInt8 {
  fileprivate var isLetterOrDigit: Bool {
    switch self {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }
}
