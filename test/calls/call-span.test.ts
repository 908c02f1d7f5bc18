import { describe, expect, it } from 'vitest'
import { templateOf } from '../../src/calls/call-span.ts'

/** Rule: docs/behaviour/tracing.md, "Calls". */
describe('the template of an endpoint', () => {
  it.each([
    ['/repos/acme/site/issues/17?page=2', '/repos/acme/site/issues/{id}'],
    ['https://user:pass@api.example.com/v1/things/4711#x', '/v1/things/{id}'],
    ['/users/anna@example.com', '/users/{id}'],
    ['/users/anna%40example.com', '/users/{id}'],
    ['/users/J%C3%BCrgen/repos', '/users/{id}/repos'],
    ['/contacts/cus_Ab3x', '/contacts/{id}'],
    ['/plans/p_9', '/plans/{id}'],
    ['/orders/ab12cd', '/orders/{id}'],
    ['/orders/A1-B2-C3', '/orders/{id}'],
    ['/files/3f2504e0-4f89-11d3-9a0c-0305e82c3301', '/files/{id}'],
    ['/bot/AbCdEfGhIjKlMnOpQrStUvWx/me', '/bot/{id}/me'],
    ['/admin/api/2023-10/products.json', '/admin/api/2023-10/products.json'],
    ['/v2/crm_objects/contacts', '/v2/crm_objects/contacts'],
    // Plain slugs, whoever's they are.
    ['/repos/acme/my-site/labels', '/repos/acme/my-site/labels'],
    ['/users/anna', '/users/anna'],
  ])('of %s is %s', (endpoint, template) => {
    expect(templateOf(endpoint)).toBe(template)
  })
})
