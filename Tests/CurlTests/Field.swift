import HTTPTypes

/// A field name that is known to be one.
func field(_ name: String) -> HTTPField.Name {
  guard let name = HTTPField.Name(name) else { preconditionFailure("\(name) is no field name") }
  return name
}
