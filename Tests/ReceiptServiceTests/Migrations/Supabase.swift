import Foundation
import Postgres
import TestDatabase
import Testing

@testable import ReceiptService

/// A database as Supabase creates it, with an app that already has users.
struct Supabase {
  let database: TestDatabase
  let pool: PostgresPool
  /// Three users from before the migration.
  let users: [UUID]

  /// The usual policies of `profiles`.
  enum Policies {
    /// Each user sees the own profile.
    case own
    /// Every user sees all profiles, as in an app with public profiles.
    case all
  }

  /// The role and claims of a caller.
  enum Caller: CustomStringConvertible {
    case anon
    case authenticated(UUID)
    case service

    var role: String {
      switch self {
      case .anon: "anon"
      case .authenticated: "authenticated"
      case .service: "service_role"
      }
    }

    var description: String { role }

    fileprivate var claims: String {
      if case .authenticated(let user) = self {
        #"{"sub": "\#(user.uuidString.lowercased())", "role": "authenticated"}"#
      } else {
        #"{"role": "\#(role)"}"#
      }
    }
  }

  /// Creates such a database and migrates it.
  static func with(_ policies: Policies, _ body: (Supabase) async throws -> Void) async throws {
    try await withTestDatabase { database in
      try await database.withPool { pool in
        for statement in [roles, auth, profiles, policies == .own ? ownPolicy : publicPolicy] {
          _ = try await pool.query(
            Query(unescaped: "DO LANGUAGE plpgsql $do$ BEGIN EXECUTE $script$\(statement)$script$; END $do$"))
        }
        try await Migrator(pool: pool, folder: Harness.migrations).apply()
        // As a server with clientWrites "refuse" does.
        _ = try await pool.query("UPDATE client_write_modes SET mode = 'refuse'")
        let users = try await pool.query("SELECT id FROM auth.users ORDER BY id").map {
          try $0.decode("id", as: UUID.self)
        }
        // Each user has a premium status of receiptd.
        for (index, user) in users.enumerated() {
          _ = try await pool.query(
            """
            UPDATE profiles SET premium_expires_at = now() + interval '30 days', premium_product_id = 'premium',
              premium_original_transaction_id = \("100000000000\(index)") WHERE id = \(user)
            """)
          _ = try await pool.query(
            "INSERT INTO user_preferences (user_id, is_premium, bookmark_limit) VALUES (\(user), true, 999)")
        }
        try await body(Supabase(database: database, pool: pool, users: users))
      }
    }
  }

  /// Runs one statement like PostgREST, in a transaction with the caller's role and claims, and rolls it back.
  /// - Returns: the result; `nil` if the statement is refused.
  func run(_ statement: String, as caller: Caller) async throws -> Rows? {
    do {
      try await pool.withTransaction { connection in
        _ = try await connection.query(Query(unescaped: "SET LOCAL ROLE \(caller.role)"))
        _ = try await connection.query("SELECT set_config('request.jwt.claims', \(caller.claims), true)")
        throw Undo(rows: try await connection.query(Query(unescaped: statement)))
      }
      return nil
    } catch let undo as Undo {
      return undo.rows
    } catch let error as PostgresError {
      // Other errors than 'insufficient privilege' are mistakes of the test. (The trigger that protects headers runs
      // before row level security.)
      let isKept = error.sqlState == "55000" && statement.contains("jws_headers")
      #expect(error.sqlState == "42501" || isKept, "\(caller): \(statement): \(error)")
      return nil
    }
  }

  private struct Undo: Error {
    let rows: Rows
  }

  func isRefused(_ statement: String, as caller: Caller) async throws -> Bool {
    try await run(statement, as: caller) == nil
  }

  /// Roles belong to the cluster, so another test may have created them or may create them at the same time.
  static let rolesOfCluster = """
    DO $roles$ DECLARE definition text; BEGIN
      FOREACH definition IN ARRAY ARRAY['anon', 'authenticated', 'service_role BYPASSRLS'] LOOP
        BEGIN
          EXECUTE 'CREATE ROLE ' || definition;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
      END LOOP;
    END $roles$;
    """

  /// A script for these roles with the rights that Supabase gives them.
  static let roles = """
    \(rolesOfCluster)
    GRANT USAGE ON SCHEMA public TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON FUNCTIONS TO anon, authenticated, service_role;
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON SEQUENCES TO anon, authenticated, service_role;
    """

  /// A script for a role as which PostgREST acts for clients, `receiptdtest_member`, which is a member of another such
  /// role.
  static let member = """
    DO $roles$ DECLARE statement text; BEGIN
      FOREACH statement IN ARRAY ARRAY['CREATE ROLE authenticator LOGIN NOINHERIT', 'CREATE ROLE receiptdtest_team',
        'CREATE ROLE receiptdtest_member', 'GRANT receiptdtest_team TO receiptdtest_member',
        'GRANT receiptdtest_member TO authenticator'] LOOP
        BEGIN EXECUTE statement;
        EXCEPTION WHEN OTHERS THEN NULL; END;
      END LOOP;
    END $roles$;
    """

  static let auth = """
    CREATE SCHEMA auth;
    CREATE TABLE auth.users (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), email text);
    CREATE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql STABLE AS $uid$
      SELECT coalesce(nullif(current_setting('request.jwt.claim.sub', true), ''),
        nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid $uid$;
    GRANT USAGE ON SCHEMA auth TO anon, authenticated, service_role;
    INSERT INTO auth.users (email) SELECT name || '@example.com' FROM unnest(ARRAY['a', 'b', 'c']) AS name;
    """

  private static let profiles = """
    CREATE TABLE profiles (
      id uuid PRIMARY KEY REFERENCES auth.users ON DELETE CASCADE, username text, avatar_url text);
    ALTER TABLE profiles ENABLE ROW LEVEL SECURITY;
    CREATE POLICY "Users can insert their own profile." ON profiles FOR INSERT
      WITH CHECK ((SELECT auth.uid()) = id);
    CREATE POLICY "Users can update own profile." ON profiles FOR UPDATE USING ((SELECT auth.uid()) = id);
    CREATE POLICY "Users can delete own profile." ON profiles FOR DELETE USING ((SELECT auth.uid()) = id);
    INSERT INTO profiles (id, username) SELECT id, email FROM auth.users;
    """

  private static let ownPolicy = """
    CREATE POLICY "Users can view own profile." ON profiles FOR SELECT USING ((SELECT auth.uid()) = id)
    """

  private static let publicPolicy = """
    CREATE POLICY "Public profiles are viewable by everyone." ON profiles FOR SELECT USING (true)
    """
}
