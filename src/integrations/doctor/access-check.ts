import { hasOAuth2 } from '../../providers/contracts.ts'
import type { Check } from './doctor-check.ts'
import { ok, warning } from './doctor-check.ts'

/** Prints a new token, and the line that makes it known to API, worker and CLI started from the same shell. */
const NEW_TOKEN = `node -e ${"'"}const { createHash, randomBytes } = require("crypto"); const token = randomBytes(32).toString("base64url"); const sha256 = createHash("sha256").update(token).digest("hex"); console.log("# token: " + token); console.log("export INTEGRATIONS__OPERATOR__TOKENS=\\x27" + JSON.stringify([{ name: "me", sha256, scopes: ["operate"] }]) + "\\x27")${"'"}`

const HTTPS_BASE_URL = 'export INTEGRATIONS_BASE_URL=https://integrations.example.com'

export const accessTokens: Check = {
  name: 'access.tokens',
  needs: [],
  async look({ config }, { dev }) {
    const names = config.operator.tokens.map(({ name }) => name)
    if (names.length > 0) return ok(`Operators' tokens: ${names.join(', ')}.`)
    if (dev)
      return ok('No token but that of `dev`: the API logs the address that signs a browser in (event access.dev).')
    return warning(
      'There is no operator token (operator.tokens): nobody can read the operator pages. Keep the token that this prints, and put the other line where API and CLI get their environment.',
      NEW_TOKEN,
    )
  },
}

export const accessBaseUrl: Check = {
  name: 'access.base_url',
  needs: [],
  async look({ providers }, { baseUrl }) {
    const oauth = providers.entries().flatMap(([key, provider]) => (hasOAuth2(provider) ? [key] : []))
    if (baseUrl !== null && oauth.length > 0 && isInTheClear(baseUrl))
      return warning(
        `The API is reached at ${baseUrl}, without TLS, and ${oauth.join(', ')} use OAuth: most providers refuse to lead a browser back there, and whoever is on the way reads the code.`,
        HTTPS_BASE_URL,
      )
    if (baseUrl !== null) return ok(`The API is reached at ${baseUrl}.`)
    if (oauth.length === 0) return ok('Not set, and no registered provider needs it.')
    return warning(
      `No base URL is set, and ${oauth.join(', ')} use OAuth: providers can't lead a browser back to the API. Set it to where the API is reached from outside.`,
      HTTPS_BASE_URL,
    )
  },
}

/** RFC 8252, 8.3: only to the machine itself is http good enough. */
function isInTheClear(baseUrl: string): boolean {
  const { protocol, hostname } = new URL(baseUrl)
  return protocol === 'http:' && !['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
