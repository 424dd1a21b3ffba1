-- The secret of each device that sends one: a device id is a name, and any caller that knew it could act for the device.

CREATE TABLE IF NOT EXISTS public.device_secrets (
  bundle_id text NOT NULL,
  device_id text NOT NULL,
  secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  set_at timestamptz NOT NULL,
  PRIMARY KEY (bundle_id, device_id)
);
COMMENT ON TABLE public.device_secrets IS 'Devices that have a secret: their routes are served with it alone. For the server''s role, not for support.';
COMMENT ON COLUMN public.device_secrets.bundle_id IS 'The app.';
COMMENT ON COLUMN public.device_secrets.device_id IS 'The device.';
COMMENT ON COLUMN public.device_secrets.secret_hash IS 'SHA-256 of the 32 random bytes in the header Receiptd-Device-Secret.';
COMMENT ON COLUMN public.device_secrets.set_at IS 'When the device set this secret.';

-- Support resets a secret through the server and needs no right here. service_role serves an API that this table must
-- not show in.
REVOKE ALL ON public.device_secrets FROM PUBLIC;
DO $$
DECLARE
  other text;
BEGIN
  FOREACH other IN ARRAY ARRAY['receiptd_support', 'anon', 'authenticated', 'service_role'] LOOP
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = other) THEN
      EXECUTE format('REVOKE ALL ON public.device_secrets FROM %I', other);
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname IN ('anon', 'authenticated')) THEN
    ALTER TABLE public.device_secrets ENABLE ROW LEVEL SECURITY;
  END IF;
END
$$;

-- The list of receiptd_open_to_application() with one line more. The list in force is changed, not a copy of an old one,
-- so that no other migration's line is lost.
DO $$
DECLARE
  definition text := pg_get_functiondef('public.receiptd_open_to_application()'::regprocedure);
  neighbour text := '(''devices'', ''SELECT, INSERT, UPDATE, DELETE''),';
BEGIN
  IF strpos(definition, '''device_secrets''') > 0 THEN
    RETURN;
  END IF;
  IF strpos(definition, neighbour) = 0 THEN
    RAISE EXCEPTION 'receiptd_open_to_application() does not list the table devices';
  END IF;
  EXECUTE replace(definition, neighbour,
    neighbour || E'\n    ' || replace(neighbour, '''devices''', '''device_secrets'''));
END
$$;

SELECT public.receiptd_open_to_application();
