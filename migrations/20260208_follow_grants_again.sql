-- The server's clock had more digits than PostgreSQL, which rounds: every second grant began, when it was read back for its
-- user's profile, a fraction of a microsecond after the instant at which it was given, and was not written there; and
-- of those taken back every second one stayed. Nobody looked again, for the grant had been followed as of that
-- instant. The next sweep looks at all of them once more, and changes the profiles that say something else.
UPDATE public.grants SET followed_until = NULL
WHERE user_id IS NOT NULL AND (followed_until = starts_at OR followed_until = revoked_at);
