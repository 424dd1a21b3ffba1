import FuzzSupport

/// The fuzz targets of the service and its database client.
@main struct FuzzService {
  static func main() {
    Fuzzer.run([
      .init("bodies", BodyTarget.check), .init("members", MemberTarget.check),
      .init("apps", AppsTarget.check),
      .init("settings", SettingsTarget.check), .init("rows", RowTarget.check),
    ])
  }
}
