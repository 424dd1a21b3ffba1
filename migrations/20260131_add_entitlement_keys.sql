-- Keys that sign entitlement tokens, shared by all servers where ENTITLEMENT_KEY is not set.

CREATE TABLE public.entitlement_keys (
  kid text PRIMARY KEY,
  private_key bytea NOT NULL CHECK (octet_length(private_key) = 32),
  created_at timestamptz NOT NULL,
  signs_from timestamptz NOT NULL,
  withdrawn_at timestamptz
);
COMMENT ON TABLE public.entitlement_keys IS 'Private keys that sign entitlement tokens. Whoever reads them can make anybody premium: for the server''s role alone, not for support.';
COMMENT ON COLUMN public.entitlement_keys.kid IS 'The key''s name in tokens and in /.well-known/jwks.json: the thumbprint of its public half (RFC 7638).';
COMMENT ON COLUMN public.entitlement_keys.private_key IS 'The Ed25519 private key (RFC 8032), 32 bytes.';
COMMENT ON COLUMN public.entitlement_keys.created_at IS 'When it was made; published from then on.';
COMMENT ON COLUMN public.entitlement_keys.signs_from IS 'From when on it signs, until a later one does. It stays published for as long as what it signed holds.';
COMMENT ON COLUMN public.entitlement_keys.withdrawn_at IS 'When it was given up because somebody else may have it: it signs nothing and is not published. NULL: it was not.';

REVOKE ALL ON public.entitlement_keys FROM PUBLIC;
DO $$
DECLARE
  other text;
BEGIN
  -- service_role too: it is the role of an API that this table must never show in.
  FOREACH other IN ARRAY ARRAY['receiptd_support', 'anon', 'authenticated', 'service_role'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = other) THEN
      EXECUTE format('REVOKE ALL ON public.entitlement_keys FROM %I', other);
    END IF;
  END LOOP;
END
$$;
