import { z } from 'zod'

/** The key goes into a header. A character that no header can hold would otherwise fail only at the first call. */
const VISIBLE = /^[\x21-\x7e]+$/
const WebhookSecret = z.string().regex(/^whsec_[\x21-\x7e]+$/, 'a signing secret that begins with whsec_ is allowed')

/**
 * `credentials` of a Stripe integration.
 *
 * A key says by its prefix whether it is of live or of test mode: https://docs.stripe.com/keys#obtain-api-keys
 */
export const StripeCredentials = z
  .looseObject({
    /** Secret key. */
    api_key: z
      .string()
      .regex(VISIBLE, 'visible ASCII characters are allowed')
      .regex(/^sk_(live|test)_./, 'a secret key that begins with sk_live_ or sk_test_ is allowed'),
    publishable_key: z
      .string()
      .regex(/^pk_(live|test)_./, 'a publishable key that begins with pk_live_ or pk_test_ is allowed')
      .nullish(),
    /** Signing secret of the webhook endpoint; without one no webhook verifies. */
    webhook_secret: WebhookSecret.nullish(),
    /** Signing secrets of a rotation, beside the one above. */
    webhook_secrets: z.array(z.looseObject({ secret: WebhookSecret, expires_at: z.string().nullish() })).nullish(),
  })
  .refine((keys) => !keys.publishable_key || modeOf(keys.publishable_key) === modeOf(keys.api_key), {
    path: ['publishable_key'],
    message: 'a key of the same mode as api_key is allowed: both live or both test',
  })

/** `live` or `test`. */
function modeOf(key: string): string | undefined {
  return key.split('_')[1]
}
