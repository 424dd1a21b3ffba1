/// A stored transaction that the ledger read is gone or changed when it is updated: another server has written it as part of
/// another purchase, or retention has deleted it. The next attempt reads it again.
struct RowsChanged: Error {}
