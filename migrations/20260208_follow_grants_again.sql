-- The system's clock has more digits than a timestamptz, and what was sent was rounded: a grant that was rounded up began,
-- when it was read back for its user's profile, a fraction of a microsecond after the instant at which it was given,
-- and was not written there. Nobody looked again, for the grant had been followed as of that instant. The sweep looks
-- at those that are open once more, some at each turn, and changes the profiles that say something else.
UPDATE public.grants SET followed_until = NULL
WHERE user_id IS NOT NULL AND followed_until = starts_at AND revoked_at IS NULL
  AND (ends_at IS NULL OR ends_at > now());
