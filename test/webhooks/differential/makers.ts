/** The makers' and the standards' own code, each as a judge of deliveries of one door of the catalogue. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parse } from 'node:querystring'
import { pathToFileURL } from 'node:url'

/** A delivery as the maker's code is given it, in Node's ways: lower-case names, repeats joined. */
export interface Judged {
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  readonly secret: string
}

export type Judge = (delivery: Judged) => boolean | Promise<boolean>

/** Where packages are: the repository's own, or a folder that the long test has filled. */
export interface Packages {
  /** By the name that a host imports it by; by a file's path, where the package is for `import` alone. */
  load(name: string): Promise<Record<string, never>>
  /** A file that the package does not export. */
  file(path: string): Record<string, never>
}

export interface Maker {
  readonly door: string
  readonly package: string
  readonly version: string
  /** In our own devDependencies, so that the short form can ask it. */
  readonly isAtHand: boolean
  /** The maker's code looks at no time; or only at how old it is. */
  readonly time?: 'unchecked' | 'age only'
  judge(packages: Packages): Promise<Judge>
}

// biome-ignore lint/suspicious/noExplicitAny: each package has its own shape, and some have no types
type Any = any

const text = (body: Buffer) => body.toString()
/** Throws for a refusal. */
const unless = async (throws: () => unknown, isRefusal: (error: unknown) => boolean = () => true) => {
  try {
    await throws()
    return true
  } catch (error) {
    if (isRefusal(error)) return false
    return true
  }
}

/** Quick ones first: checks of public keys cost a hundred times an HMAC. */
export const MAKERS: readonly Maker[] = [
  {
    door: 'stripe',
    package: 'stripe',
    version: '23.1.0',
    isAtHand: true,
    time: 'age only',
    async judge(packages) {
      const { default: Stripe } = (await packages.load('stripe')) as Any
      return ({ headers, body, secret }) =>
        unless(() => Stripe.webhooks.signature.verifyHeader(text(body), headers['stripe-signature'], secret, 300))
    },
  },
  {
    door: 'github',
    package: '@octokit/webhooks-methods',
    version: '6.0.0',
    isAtHand: true,
    async judge(packages) {
      const { verify } = (await packages.load('@octokit/webhooks-methods/dist-node/index.js')) as Any
      return ({ headers, body, secret }) =>
        verify(secret, text(body), headers['x-hub-signature-256']).catch(() => false)
    },
  },
  {
    door: 'openai',
    package: 'standardwebhooks',
    version: '1.1.1',
    isAtHand: true,
    async judge(packages) {
      const { Webhook } = (await packages.load('standardwebhooks')) as Any
      return ({ headers, body, secret }) =>
        unless(() => new Webhook(secret).verify(text(body), headers, { jsonParse: false }))
    },
  },
  {
    door: 'resend',
    package: 'svix',
    version: '1.99.1',
    isAtHand: false,
    async judge(packages) {
      const { Webhook } = packages.file('svix/dist/webhook.js') as Any
      // It reads the body as JSON once the signature holds.
      return ({ headers, body, secret }) =>
        unless(
          () => new Webhook(secret).verify(text(body), headers),
          (error) => !(error instanceof SyntaxError),
        )
    },
  },
  {
    door: 'twilio',
    package: 'twilio',
    version: '6.2.0',
    isAtHand: false,
    async judge(packages) {
      const { validateIncomingRequest } = packages.file('twilio/lib/webhooks/webhooks.js') as Any
      return ({ url, headers, body, secret }) => {
        const isForm = /^application\/x-www-form-urlencoded *(;|$)/i.test(headers['content-type'] ?? '')
        const request = {
          header: (name: string) => headers[name.toLowerCase()],
          body: isForm ? { ...parse(text(body)) } : jsonOf(body),
          rawBody: text(body),
        }
        try {
          return validateIncomingRequest(request, secret, { url })
        } catch {
          return false
        }
      }
    },
  },
  {
    door: 'shopify',
    package: '@shopify/shopify-api',
    version: '12.3.0',
    isAtHand: false,
    async judge(packages) {
      packages.file('@shopify/shopify-api/dist/cjs/adapters/node/index.js')
      const { validateHmacString } = packages.file('@shopify/shopify-api/dist/cjs/lib/utils/hmac-validator.js') as Any
      return async ({ headers, body, secret }) => {
        const given = headers['x-shopify-hmac-sha256'] ?? ''
        if (given === '' || body.length === 0) return false
        return validateHmacString({ apiSecretKey: secret }, text(body), given, 'base64').catch(() => false)
      }
    },
  },
  {
    door: 'hubspot',
    package: '@hubspot/api-client',
    version: '13.5.0',
    isAtHand: false,
    time: 'age only',
    async judge(packages) {
      const { Signature } = packages.file('@hubspot/api-client/lib/src/utils/signature.js') as Any
      return ({ url, method, headers, body, secret }) =>
        unless(() => {
          const timestamp = Number(headers['x-hubspot-request-timestamp'])
          const signature = headers['x-hubspot-signature-v3'] ?? ''
          const given = {
            clientSecret: secret,
            requestBody: text(body),
            signatureVersion: 'v3',
            url,
            method,
            timestamp,
          }
          if (!Signature.isValid({ ...given, signature })) throw new Error('not valid')
        })
    },
  },
  {
    door: 'linear',
    package: '@linear/sdk',
    version: '98.0.0',
    isAtHand: false,
    async judge(packages) {
      const { LinearWebhookClient } = (await packages.load('@linear/sdk/webhooks')) as Any
      return ({ headers, body, secret }) =>
        unless(() => new LinearWebhookClient(secret).verify(body, headers['linear-signature'] ?? ''))
    },
  },
  {
    door: 'square',
    package: 'square',
    version: '46.0.0',
    isAtHand: false,
    async judge(packages) {
      const { WebhooksHelper } = packages.file('square/wrapper/WebhooksHelper.js') as Any
      return ({ url, headers, body, secret }) =>
        WebhooksHelper.verifySignature({
          requestBody: text(body),
          signatureHeader: headers['x-square-hmacsha256-signature'] ?? '',
          signatureKey: secret,
          notificationUrl: url,
        })
    },
  },
  {
    door: 'slack',
    package: '@slack/bolt',
    version: '5.1.0',
    isAtHand: false,
    time: 'age only',
    async judge(packages) {
      const { isValidSlackRequest } = packages.file('@slack/bolt/dist/receivers/verify-request.js') as Any
      return ({ headers, body, secret }) =>
        isValidSlackRequest({
          signingSecret: secret,
          body: text(body),
          headers: {
            'x-slack-signature': headers['x-slack-signature'],
            // Its own receiver reads it as a number, too.
            'x-slack-request-timestamp': Number(headers['x-slack-request-timestamp']),
          },
        })
    },
  },
  {
    door: 'discord',
    package: 'discord-interactions',
    version: '4.4.0',
    isAtHand: true,
    time: 'unchecked',
    async judge(packages) {
      const { verifyKey } = (await packages.load('discord-interactions')) as Any
      return ({ headers, body, secret }) =>
        verifyKey(body, headers['x-signature-ed25519'] ?? '', headers['x-signature-timestamp'] ?? '', secret)
    },
  },
  {
    door: 'google-pubsub',
    package: 'jose',
    version: '6.2.17',
    isAtHand: true,
    async judge(packages) {
      const { jwtVerify, importSPKI } = (await packages.load('jose')) as Any
      const options = { algorithms: ['RS256'], issuer: 'https://accounts.google.com', audience: 'https://example.com' }
      let known: { secret: string; key: unknown } | null = null
      return ({ headers, secret }) =>
        unless(async () => {
          if (known?.secret !== secret) known = { secret, key: await importSPKI(secret, 'RS256') }
          const [, token = ''] = /^bearer (.*)$/i.exec(headers.authorization ?? '') ?? []
          const requiredClaims = ['exp']
          const given = await jwtVerify(token, known.key, { ...options, requiredClaims, clockTolerance: 300 })
          if (given.payload.email !== 'push@p.iam.gserviceaccount.com' || given.payload.email_verified !== true)
            throw new Error('another service account')
        })
    },
  },
  {
    door: 'amazon-sns',
    package: 'sns-validator',
    version: '0.3.5',
    isAtHand: true,
    time: 'unchecked',
    async judge(packages) {
      const { default: MessageValidator } = (await packages.load('sns-validator')) as Any
      const validator = new MessageValidator()
      return ({ body }) =>
        new Promise((resolve) => {
          try {
            validator.validate(text(body), (error: unknown) => {
              resolve(error === null)
            })
          } catch {
            resolve(false)
          }
        })
    },
  },
  {
    door: 'sendgrid',
    package: '@sendgrid/eventwebhook',
    version: '8.0.0',
    isAtHand: true,
    time: 'unchecked',
    async judge(packages) {
      const { EventWebhook } = (await packages.load('@sendgrid/eventwebhook')) as Any
      const webhook = new EventWebhook()
      return ({ headers, body, secret }) => {
        try {
          const key = webhook.convertPublicKeyToECDSA(secret)
          const [signature, timestamp] = ['signature', 'timestamp'].map(
            (name) => headers[`x-twilio-email-event-webhook-${name}`] ?? '',
          )
          return webhook.verifySignature(key, body, signature, timestamp)
        } catch {
          return false
        }
      }
    },
  },
]

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(text(body))
  } catch {
    return {}
  }
}

/** @param folder that has a `node_modules` */
export function packagesIn(folder: string): Packages {
  const require = createRequire(join(folder, 'package.json'))
  return {
    async load(name) {
      const path = name.endsWith('.js') ? join(folder, 'node_modules', name) : require.resolve(name)
      return (await import(pathToFileURL(path).href)) as Record<string, never>
    },
    file: (path) => require(join(folder, 'node_modules', path)) as Record<string, never>,
  }
}
