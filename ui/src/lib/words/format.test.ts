import { describe, expect, it } from 'vitest';
import { about, age, bytesOf, duration, elapsed, size, sizeK, splitAtByte, tokens } from './format';

describe('format', () => {
  it('sizes', () => {
    expect([640, 999, 1000, 12_104, 16_000, 65_536, 999_949, 999_950, 1_240_000].map(size)).toEqual([
      '640 B',
      '999 B',
      '1 kB',
      '12.1 kB',
      '16 kB',
      '65.5 kB',
      '999.9 kB',
      '1 MB',
      '1.2 MB',
    ]);
    expect([0, 40, 420, 1_500].map(sizeK)).toEqual(['0.1 kB', '0.1 kB', '0.4 kB', '1.5 kB']);
  });
  it('tokens', () => {
    expect([0, 812, 18_000, 272_000, 1_000_000, 1_100_000].map(tokens)).toEqual([
      '0',
      '812',
      '18k',
      '272k',
      '1M',
      '1.1M',
    ]);
    expect([42, 3_026, 31_400].map(about)).toEqual(['42', '3,000', '31,000']);
  });
  it('times', () => {
    expect([100, 9_000, 48_400, 128_000, 3_840_000].map(duration)).toEqual([
      '0.1 s',
      '9 s',
      '48 s',
      '2 min 08 s',
      '1 h 04 min',
    ]);
    expect([38_000, 724_000, 3_724_000].map(elapsed)).toEqual(['0:38', '12:04', '1:02:04']);
  });
  it('ages', () => {
    const now = new Date(2026, 10, 30, 12, 0).getTime();
    const before = (hours: number) => age(now - hours * 3_600_000, now);
    expect([before(0), before(0.5), before(2), before(20), before(72), before(24 * 18), before(24 * 400)]).toEqual([
      'now',
      '30 min',
      '2 h',
      'yesterday',
      'Fri',
      '12 Nov',
      '26 Oct 2025',
    ]);
  });
  it('bytes are of UTF-8', () => {
    expect(bytesOf('aé漢🙂')).toBe(1 + 2 + 3 + 4);
    expect(splitAtByte('aé漢🙂b', 6)).toEqual(['aé漢', '🙂b']);
  });
});
