package dev.mcpbridge;

import java.util.Collection;

/** Finds the name that a misspelled name probably means. */
final class Names {
  private Names() {}

  /** Returns the existing name that is most similar to a misspelled one, or null. */
  static String close(String wrong, Collection<String> names) {
    String best = null;
    int least = wrong.length() / 3 + 1;
    for (String name : (Iterable<String>) names.stream().limit(500)::iterator) { // Comparing many is slow.
      int distance = distance(wrong.toLowerCase(java.util.Locale.ROOT), name.toLowerCase(java.util.Locale.ROOT));
      if (distance < least) {
        best = name;
        least = distance;
      }
    }
    return best;
  }

  /** Returns the Damerau-Levenshtein distance. */
  private static int distance(String a, String b) {
    int[][] d = new int[a.length() + 1][b.length() + 1];
    for (int i = 0; i <= a.length(); i++) {
      for (int j = 0; j <= b.length(); j++) {
        if (i == 0 || j == 0) {
          d[i][j] = i + j;
          continue;
        }
        boolean same = a.charAt(i - 1) == b.charAt(j - 1);
        d[i][j] = Math.min(d[i - 1][j - 1] + (same ? 0 : 1), Math.min(d[i - 1][j], d[i][j - 1]) + 1);
        if (i > 1 && j > 1 && a.charAt(i - 1) == b.charAt(j - 2) && a.charAt(i - 2) == b.charAt(j - 1)) {
          d[i][j] = Math.min(d[i][j], d[i - 2][j - 2] + 1);
        }
      }
    }
    return d[a.length()][b.length()];
  }
}
