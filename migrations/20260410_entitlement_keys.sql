-- Keys that sign entitlement tokens, shared by all servers where ENTITLEMENT_KEY is not set.

CREATE TABLE public.entitlement_keys (
  kid text PRIMARY KEY,
  private_key bytea NOT NULL CHECK (octet_length(private_key) = 32),
  created_at timestamptz NOT NULL,
  signs_from timestamptz NOT NULL,
  withdrawn_at timestamptz
);
COMMENT ON TABLE public.entitlement_keys IS 'Private keys that sign entitlement tokens. A reader of this table can make any customer premium, so it is for the server''s role only, not for support.';
COMMENT ON COLUMN public.entitlement_keys.kid IS 'The key''s name in tokens and in /.well-known/jwks.json: the thumbprint of its public half (RFC 7638).';
COMMENT ON COLUMN public.entitlement_keys.private_key IS 'The Ed25519 private key (RFC 8032), 32 bytes.';
COMMENT ON COLUMN public.entitlement_keys.created_at IS 'When the key was made; it is published from then on.';
COMMENT ON COLUMN public.entitlement_keys.signs_from IS 'When the key begins to sign; it signs until a later key does. It stays published as long as a token that it signed is valid.';
COMMENT ON COLUMN public.entitlement_keys.withdrawn_at IS 'When the key was withdrawn because it may have leaked: it signs nothing and is not published. NULL: it was not.';
