import Foundation

/// A configuration with two apps: one with users as customers, one with devices.
enum TestApps {
  static let climbing = "com.example.climbing"
  static let monthly = "com.example.climbing.monthly"
  static let annual = "com.example.climbing.annual"
  static let lifetime = "com.example.climbing.lifetime"
  static let family = "com.example.family"
  static let individual = "com.example.family.individual"
  static let familyPlan = "com.example.family.family"

  static let json = configuration()

  static func configuration(
    sandboxGrants: String = #""nobody""#, transferPolicy: String = "keep",
    writeTo: String = #"["profiles", "user_preferences"]"#, auth: String = secretAuth,
    storeKey: Bool = false
  ) -> String {
    """
    { "apps": [
      { "bundleID": "com.example.climbing", "appAppleID": 1500000001, "name": "Climbing",
        "sandboxGrants": \(sandboxGrants), "customer": "user", "transferPolicy": "\(transferPolicy)",
        "products": {
          "com.example.climbing.monthly": { "tier": "premium", "aliases": ["climbing.monthly"] },
          "com.example.climbing.annual": { "tier": "premium" },
          "com.example.climbing.lifetime": { "tier": "premium" } },
        "tiers": { "premium": { "rank": 1, "features": { "insights": true, "history": null } } },
        "free": { "features": { "insights": false, "history": 30 } },
        \(storeKey ? ownKey : "")
        "auth": \(auth), "writeTo": \(writeTo) },
      { "bundleID": "com.example.family", "appAppleID": 1500000002, "name": "Family",
        "customer": "device", "transferPolicy": "\(transferPolicy)",
        "products": {
          "com.example.family.individual": { "tier": "individual" },
          "com.example.family.family": { "tier": "family" } },
        "tiers": {
          "individual": { "rank": 1, "features": { "childDevices": 1 } },
          "family": { "rank": 2, "features": { "childDevices": 5 } } },
        "free": { "features": { "childDevices": 0 } },
        "grace": { "days": 7, "features": { "childDevices": 1 } } }
    ] }
    """
  }

  /// A key that the store does not know; the harness writes the file.
  private static let ownKey = """
    "appStore": { "key": "\(ownKeyFile)", "keyID": "OTHERKEY00", "issuerID": "another-issuer" },
    """

  static let ownKeyFile = FileManager.default.temporaryDirectory
    .appending(path: "receiptd-own-key-\(UUID()).p8").path

  static let secretAuth = """
    { "secretEnv": "TEST_JWT_SECRET", "issuer": "https://auth.example", "audience": "authenticated" }
    """
}
