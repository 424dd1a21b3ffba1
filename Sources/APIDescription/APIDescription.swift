/// The OpenAPI 3.1 description of the HTTP API, `docs/openapi.yaml` at the time of the build.
///
/// It is compiled in, so that a server always serves the description of its own version. It is a module of its own,
/// because the compiler needs seconds for such a long array.
public enum APIDescription {
  /// The file in UTF-8.
  public static let yaml: [UInt8] = PackageResources.openapi_yaml
}
