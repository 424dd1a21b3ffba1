import AppStore
import Foundation
import JSON
import Subscriptions

import enum HTTP.RFC3339

/// Decodes an app of the configuration file; `config/apps.json` has examples.
extension App {
  convenience init(_ object: ConfigurationObject) throws(ConfigurationProblem) {
    try object.allowOnly([
      "bundleID", "appAppleID", "name", "environments", "sandboxGrants", "customer", "transferPolicy",
      "products", "tiers", "free", "trial", "grace", "grandfather", "offlineGraceDays", "auth", "writeTo",
      "appStore", "cloudkit", "webhooks", "devicesPerPurchase", "eventBytesPerDay", "hosts", "default",
      "clientWrites", "userPreferences", "refundAnswers", "tellAccountToken", "reminders",
      "forwardNotifications", "premiumWriters", "offline", "newTrials", "xcode", "freeAccessWrites",
    ])
    let bundleID = try object.requiredString("bundleID")
    guard let customer = try object.word("customer", as: CustomerKind.self) else {
      throw ConfigurationProblem(object.path(of: "customer"), "is missing; set user or device")
    }
    let tiers = try readTiers(object)
    let environments = try object.words("environments", as: StoreEnvironment.self)
    if let environments, environments.isEmpty {
      throw ConfigurationProblem(object.path(of: "environments"), "must not be empty")
    }
    let writeTo = Set(try object.words("writeTo", as: StatusDestination.self) ?? [])
    let appAppleID = try object.integer("appAppleID", in: 1...Int.max).map(Int64.init)
    self.init(
      bundleID: bundleID,
      appAppleID: appAppleID,
      name: try object.string("name") ?? bundleID,
      environments: Set(environments ?? [.production, .sandbox]),
      sandboxGrants: try readSandboxGrants(object),
      customer: customer,
      transferPolicy: try object.word("transferPolicy", as: TransferPolicy.self) ?? .keep,
      devicesPerPurchase: try readDevicesPerPurchase(object, customer: customer),
      hosts: try readHosts(object),
      isDefault: try object.boolean("default") ?? false,
      clientWrites: try object.word("clientWrites", as: ClientWrites.self),
      premiumWriters: try readPremiumWriters(object),
      refundAnswers: try object.word("refundAnswers", as: RefundAnswers.self) ?? .none,
      tellsAccountToken: try readTellAccountToken(object, customer: customer),
      products: try readProducts(object, tiers: tiers),
      tiers: tiers,
      free: try readFree(object),
      trial: try readAllowance(object, "trial"),
      grace: try readAllowance(object, "grace"),
      grandfather: try readGrandfather(object, customer: customer, tiers: tiers),
      offlineGraceDays: try object.integer("offlineGraceDays", in: 0...365) ?? 7,
      offline: try object.word("offline", as: OfflineRule.self) ?? .grace,
      newTrials: try object.word("newTrials", as: NewTrials.self) ?? .open,
      eventBytesPerDay: try object.integer("eventBytesPerDay", in: 1_000...1_000_000_000_000)
        ?? App.defaultEventBytesPerDay,
      auth: try readTokenIssuer(object),
      writeTo: writeTo,
      freeAccessWrites: try readFreeAccessWrites(object, customer: customer, writeTo: writeTo),
      storeKey: try readStoreKey(object),
      xcodeCertificates: try readXcode(object, environments: environments ?? []),
      cloudKit: try CloudKitContainer(of: object),
      webhooks: try WebhookEndpoint.all(of: object),
      reminders: try Reminders(of: object),
      forwardedNotifications: try WebhookEndpoint.forwarding(of: object),
      bookmarkLimits: try BookmarkLimits(of: object))
    if customer == .user, auth == nil {
      throw ConfigurationProblem(
        object.path(of: "auth"),
        "is missing; an app whose customers are users needs the issuer of their tokens")
    }
  }
}

private func readDevicesPerPurchase(
  _ object: ConfigurationObject, customer: CustomerKind
) throws(ConfigurationProblem) -> Int {
  guard let number = try object.integer("devicesPerPurchase", in: 1...100) else {
    return App.defaultDevicesPerPurchase
  }
  guard customer == .device else {
    throw ConfigurationProblem(
      object.path(of: "devicesPerPurchase"), "is for apps whose customers are devices")
  }
  return number
}

/// - Returns: names of roles of the database.
private func readPremiumWriters(_ object: ConfigurationObject) throws(ConfigurationProblem) -> [String] {
  let roles = try object.strings("premiumWriters") ?? []
  for (index, role) in roles.enumerated() {
    let path = object.path(of: "premiumWriters") + "[\(index)]"
    guard !["anon", "authenticated", "public"].contains(role) else {
      throw ConfigurationProblem(
        path,
        "'\(role)' is a role of clients, each of which could make itself premium; name the role of your backend"
      )
    }
    guard (1...63).contains(role.utf8.count), !role.utf8.contains(0) else {
      throw ConfigurationProblem(path, "must be the name of a role of the database")
    }
  }
  return roles
}

private func readTellAccountToken(
  _ object: ConfigurationObject, customer: CustomerKind
) throws(ConfigurationProblem) -> Bool {
  guard let tells = try object.boolean("tellAccountToken") else { return false }
  guard customer == .user else {
    throw ConfigurationProblem(
      object.path(of: "tellAccountToken"),
      "is for apps whose customers are users: a device has no UUID of a user")
  }
  return tells
}

private func readFreeAccessWrites(
  _ object: ConfigurationObject, customer: CustomerKind, writeTo: Set<StatusDestination>
) throws(ConfigurationProblem) -> Bool {
  guard try object.boolean("freeAccessWrites") == true else { return false }
  guard customer == .user, !writeTo.isDisjoint(with: [.profiles, .userPreferences]) else {
    throw ConfigurationProblem(
      object.path(of: "freeAccessWrites"),
      "is for apps whose customers are users and whose writeTo has profiles or user_preferences")
  }
  return true
}

/// - Returns: the host names in lower case.
private func readHosts(_ object: ConfigurationObject) throws(ConfigurationProblem) -> [String] {
  var hosts: [String] = []
  for (index, text) in (try object.strings("hosts") ?? []).enumerated() {
    let path = object.path(of: "hosts") + "[\(index)]"
    let host = text.lowercased()
    let isName = host.utf8.allSatisfy {
      switch $0 {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
        UInt8(ascii: "-"), UInt8(ascii: "."):
        true
      default: false
      }
    }
    guard isName, !host.hasPrefix("."), !host.hasSuffix(".") else {
      throw ConfigurationProblem(path, "must be a host name without scheme and port, such as api.example.com")
    }
    guard !hosts.contains(host) else { throw ConfigurationProblem(path, "'\(host)' appears twice") }
    hosts.append(host)
  }
  return hosts
}

private func readSandboxGrants(
  _ object: ConfigurationObject
) throws(ConfigurationProblem) -> SandboxGrants {
  guard let value = object.optional("sandboxGrants") else { return .nobody }
  if case .array = value { return .testers(Set(try object.strings("sandboxGrants") ?? [])) }
  if case .object = value {
    return try readSandboxWindow(ConfigurationObject(value, at: object.path(of: "sandboxGrants")))
  }
  switch try object.string("sandboxGrants") {
  case "nobody": return .nobody
  case "everyone": return .everyone
  default:
    throw ConfigurationProblem(
      object.path(of: "sandboxGrants"),
      "must be nobody, everyone, a list of user or device ids, or an object such as "
        + #"{"everyone": true, "until": "2026-12-01T00:00:00Z"}"#)
  }
}

private func readSandboxWindow(
  _ window: ConfigurationObject
) throws(ConfigurationProblem) -> SandboxGrants {
  try window.allowOnly(["everyone", "until"])
  guard try window.boolean("everyone") == true else {
    throw ConfigurationProblem(window.path(of: "everyone"), "must be true; for no window, use \"nobody\"")
  }
  guard let until = RFC3339.date(from: try window.requiredString("until")) else {
    throw ConfigurationProblem(window.path(of: "until"), "must be a time such as 2026-12-01T00:00:00Z")
  }
  return .everyoneUntil(until)
}

private func readTiers(_ object: ConfigurationObject) throws(ConfigurationProblem) -> [Tier] {
  let tiers = try ConfigurationObject(object.required("tiers"), at: object.path(of: "tiers"))
  var read: [Tier] = []
  for name in tiers.names {
    guard let tier = try tiers.object(name) else { continue }
    try tier.allowOnly(["rank", "features"])
    let rank = try tier.integer("rank", in: -1_000_000...1_000_000) ?? 0
    read.append(Tier(name: name, rank: rank, features: try readFeatures(tier)))
  }
  return read
}

private func readProducts(
  _ object: ConfigurationObject, tiers: [Tier]
) throws(ConfigurationProblem) -> [Product] {
  let products = try ConfigurationObject(object.required("products"), at: object.path(of: "products"))
  var read: [Product] = []
  var seen: Set<String> = []
  for id in products.names {
    guard let product = try products.object(id) else { continue }
    try product.allowOnly(["tier", "aliases", "accessDays", "price"])
    let tier = try product.requiredString("tier")
    guard tiers.contains(where: { $0.name == tier }) else {
      throw ConfigurationProblem(product.path(of: "tier"), "there is no tier '\(tier)'")
    }
    let aliases = try product.strings("aliases") ?? []
    for name in [id] + aliases where !seen.insert(name).inserted {
      throw ConfigurationProblem(product.path, "the name '\(name)' appears twice")
    }
    read.append(
      Product(
        id: id, tier: tier, aliases: aliases,
        accessDays: try product.integer("accessDays", in: 1...36_500),
        prices: try product.prices("price") ?? [:]))
  }
  return read
}

private func readFree(_ object: ConfigurationObject) throws(ConfigurationProblem) -> Features {
  guard let free = try object.object("free") else { return [:] }
  try free.allowOnly(["features"])
  return try readFeatures(free)
}

private func readAllowance(
  _ object: ConfigurationObject, _ name: String
) throws(ConfigurationProblem) -> Allowance? {
  guard let allowance = try object.object(name) else { return nil }
  try allowance.allowOnly(["days", "features"])
  guard let days = try allowance.integer("days", in: 0...3_650) else {
    throw ConfigurationProblem(allowance.path(of: "days"), "is missing")
  }
  return Allowance(days: days, features: try readFeatures(allowance))
}

private func readGrandfather(
  _ object: ConfigurationObject, customer: CustomerKind, tiers: [Tier]
) throws(ConfigurationProblem) -> Grandfather? {
  guard let rule = try object.object("grandfather") else { return nil }
  try rule.allowOnly(["before", "tier"])
  guard customer == .user else {
    throw ConfigurationProblem(rule.path, "is for apps whose customers are users")
  }
  guard let before = RFC3339.date(from: try rule.requiredString("before")) else {
    throw ConfigurationProblem(rule.path(of: "before"), "must be a time such as 2025-10-07T00:00:00Z")
  }
  let tier = try rule.requiredString("tier")
  guard tiers.contains(where: { $0.name == tier }) else {
    throw ConfigurationProblem(rule.path(of: "tier"), "there is no tier '\(tier)'")
  }
  return Grandfather(before: before, tier: tier)
}

private func readTokenIssuer(
  _ object: ConfigurationObject
) throws(ConfigurationProblem) -> TokenIssuer? {
  guard let auth = try object.object("auth") else { return nil }
  try auth.allowOnly(["jwks", "issuer", "audience", "secretEnv"])
  let issuer = TokenIssuer(
    jwks: try auth.string("jwks"), issuer: try auth.string("issuer"),
    audience: try auth.string("audience"), secretEnvironmentVariables: try readSecretVariables(auth))
  guard issuer.jwks != nil || !issuer.secretEnvironmentVariables.isEmpty else {
    throw ConfigurationProblem(auth.path, "needs jwks or secretEnv to verify tokens")
  }
  if let jwks = issuer.jwks, !jwks.hasPrefix("https://"), !jwks.hasPrefix("http://") {
    throw ConfigurationProblem(auth.path(of: "jwks"), "must be an http or https address")
  }
  return issuer
}

/// - Returns: the name of one variable, or of two while the secret is rotated.
private func readSecretVariables(_ auth: ConfigurationObject) throws(ConfigurationProblem) -> [String] {
  guard case .array? = auth.optional("secretEnv") else {
    return [try auth.string("secretEnv")].compactMap(\.self)
  }
  let names = try auth.strings("secretEnv") ?? []
  guard (1...2).contains(names.count), Set(names).count == names.count else {
    throw ConfigurationProblem(
      auth.path(of: "secretEnv"), "must name one environment variable, or two different ones")
  }
  return names
}

private func readStoreKey(_ object: ConfigurationObject) throws(ConfigurationProblem) -> StoreKey? {
  guard let key = try object.object("appStore") else { return nil }
  try key.allowOnly(["key", "keyID", "issuerID"])
  return StoreKey(
    file: try key.requiredString("key"), keyID: try key.requiredString("keyID"),
    issuerID: try key.requiredString("issuerID"))
}

/// - Returns: the files of the certificates.
private func readXcode(
  _ object: ConfigurationObject, environments: [StoreEnvironment]
) throws(ConfigurationProblem) -> [String] {
  guard let xcode = try object.object("xcode") else {
    guard !environments.contains(.xcode) else {
      throw ConfigurationProblem(
        object.path(of: "environments"),
        "has Xcode; name the certificate of the StoreKit tests in \"xcode\": {\"certificates\": [\"path.cer\"]}"
      )
    }
    return []
  }
  try xcode.allowOnly(["certificates"])
  guard let files = try xcode.strings("certificates"), !files.isEmpty else {
    throw ConfigurationProblem(xcode.path(of: "certificates"), "must have the path of a certificate")
  }
  guard environments.contains(.xcode) else {
    throw ConfigurationProblem(
      object.path(of: "xcode"), "has no effect without \"Xcode\" in environments; add it, or remove xcode")
  }
  guard !environments.contains(.production) else {
    throw ConfigurationProblem(
      object.path(of: "environments"),
      "has Xcode beside Production: a developer with Xcode's key could give access to any customer. Use a server and a database "
        + "for development")
  }
  return files
}

private func readFeatures(_ object: ConfigurationObject) throws(ConfigurationProblem) -> Features {
  guard let features = try object.object("features") else { return [:] }
  var read: [String: FeatureValue] = [:]
  for name in features.names {
    guard let value = features.optional(name) else { continue }
    switch value {
    case .null: read[name] = .unlimited
    case .bool(let flag): read[name] = .flag(flag)
    case .integer(let count): read[name] = .count(count)
    case .number(let amount): read[name] = .amount(amount)
    case .string(let word): read[name] = .word(word)
    case .array, .object:
      throw ConfigurationProblem(
        features.path(of: name), "must be a boolean, a number, a string or null, is \(value.kind)")
    }
  }
  return Features(read)
}

extension App {
  /// The identifiers and environments that signed data of this app must have.
  package var identity: AppIdentity {
    AppIdentity(
      bundleID: bundleID, appAppleID: appAppleID,
      environments: Set(environments.map { Environment(rawValue: $0.rawValue) }))
  }
}
