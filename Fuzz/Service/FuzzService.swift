import FuzzSupport

/// What the service and its database client read.
@main struct FuzzService {
  static func main() {
    Fuzzer.run([
      .init("bodies", BodyTarget.check), .init("members", MemberTarget.check),
      .init("apps", AppsTarget.check),
      .init("settings", SettingsTarget.check), .init("rows", RowTarget.check),
    ])
  }
}
