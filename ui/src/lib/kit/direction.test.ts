import { expect, test } from 'vitest';
import { direction } from './direction';

test('the first letter says where a text begins', () => {
  for (const text of ['', '123 !', 'hello שלום', '中文 العربية', '#1: é']) expect(direction(text), text).toBe('ltr');
  for (const text of ['שלום hello', '  12. العربية abc', 'ނަން', '"ߒߞߏ"']) expect(direction(text), text).toBe('rtl');
});
